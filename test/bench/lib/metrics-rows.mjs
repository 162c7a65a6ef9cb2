/**
 * What is switched on in a client's process before its first call, a row each, for `metrics.bench.mjs`. A row may return options for
 * `createDispatcher`, `channelOptions` and `createPoolCluster`, and what is to be done once a visit, as a scrape would.
 *
 * @typedef {{ options?: object, scrape?: () => unknown }} Row
 */
import { InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { instrument, metricProducer, prometheusText } from 'evenkeel/metrics';

export const OFF = 'off';

/** @type {Record<string, () => Row>} */
export const rows = {
  [OFF]: () => ({}),
  'prometheusText()': () => text({}),
  'the same, perEndpoint': () => text({ perEndpoint: 10 }),
  'the same, and conventions': () => text({ perEndpoint: 10, conventions: ['http', 'grpc', 'db'] }),
  'metricProducer()': () => producer({}),
  'instrument({ meter })': () => {
    const { provider, reader } = sdk([]);
    instrument({ meter: provider.getMeter('evenkeel') });
    return { scrape: () => reader.collect() };
  },
};

/** @param {import('evenkeel/metrics').MetricsOptions} options @returns {Row} */
function text(options) {
  prometheusText(options);
  return { scrape: () => prometheusText(options) };
}

/** @param {import('evenkeel/metrics').MetricProducerOptions} options @returns {Row} */
function producer(options) {
  const { reader } = sdk([metricProducer(options)]);
  return { scrape: () => reader.collect() };
}

/** @param {import('@opentelemetry/sdk-metrics').MetricProducer[]} metricProducers */
function sdk(metricProducers) {
  const exporter = new InMemoryMetricExporter(1);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000, metricProducers });
  return { reader, provider: new MeterProvider({ readers: [reader] }) };
}
