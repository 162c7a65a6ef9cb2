/**
 * What is switched on in a client's process before its first call, a row each, for `metrics.bench.mjs`. A row may return options for
 * `createDispatcher`, `channelOptions` and `createPoolCluster`, and what is to be done once a visit, as a scrape would.
 *
 * @typedef {{ options?: object, scrape?: () => unknown }} Row
 */
import { tracingChannel } from 'node:diagnostics_channel';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base';
import { prometheusText } from 'evenkeel/metrics';
import { instrumentMetrics, instrumentTraces, metricProducer } from 'evenkeel/opentelemetry';

export const OFF = 'off';
/** The column without a network, and how many picks one of its calls makes. */
export const ALONE = 'pick and end alone';
export const PICKS = 1_000;

/** @type {Record<string, () => Row>} */
export const rows = {
  [OFF]: () => ({}),
  'prometheusText()': () => text({}),
  'the same, perEndpoint': () => text({ perEndpoint: 10 }),
  'metricProducer()': () => producer({}),
  'instrumentMetrics({ meter })': () => {
    const { provider, reader } = sdk([]);
    instrumentMetrics({ meter: provider.getMeter('evenkeel') });
    return { scrape: () => reader.collect() };
  },
  'traces: a subscriber of both channels': () => {
    const subscriber = { start() {}, end() {}, asyncStart() {}, asyncEnd() {}, error() {} };
    for (const name of ['evenkeel:call', 'evenkeel:attempt']) tracingChannel(name).subscribe(subscriber);
    return {};
  },
  'traces: instrumentTraces(), nothing sampled': () => traces(new AlwaysOffSampler()),
  'traces: instrumentTraces(), one in ten': () => traces(new TraceIdRatioBasedSampler(0.1)),
  'traces: instrumentTraces()': () => traces(new AlwaysOnSampler()),
};

/**
 * Spans are batched and thrown away: what an exporter does with them is its own matter.
 *
 * @param {import('@opentelemetry/sdk-trace-base').Sampler} root @returns {Row}
 */
function traces(root) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const exporter = {
    export: (/** @type {unknown} */ _spans, /** @type {(result: { code: number }) => void} */ done) =>
      done({ code: 0 }),
    shutdown: async () => {},
  };
  const spanProcessors = [new BatchSpanProcessor(exporter, { maxQueueSize: 16_384 })];
  trace.setGlobalTracerProvider(new BasicTracerProvider({ sampler: new ParentBasedSampler({ root }), spanProcessors }));
  instrumentTraces();
  return {};
}

/** @param {import('evenkeel/metrics').MetricsOptions} options @returns {Row} */
function text(options) {
  prometheusText(options);
  return { scrape: () => prometheusText(options) };
}

/** @param {import('evenkeel/opentelemetry').MetricProducerOptions} options @returns {Row} */
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
