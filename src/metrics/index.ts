import { checkKeys, checkNumber, optionError } from '../runtime/check.js';
import { type Selection, theCollector } from './collector.js';
import { conventions as allConventions, type Convention } from './metric.js';
import { bind, type MeterLike } from './opentelemetry.js';
import { type MetricDataLike, type MetricProducerLike, Producer, type Temporality } from './producer.js';
import { prometheusFormat } from './prometheus.js';

export { catalogue as metricCatalogue, type MetricName } from './catalogue.js';
export type { Convention, Metric } from './metric.js';
export type { MeterLike, MetricDataLike, MetricProducerLike, Temporality };

/** Options of all ways to read metrics. */
export interface MetricsOptions {
  /**
   * How many endpoints of each balancer get their own series (`evenkeel.endpoint.*`), at most 10,000. Pods come and go, so
   * each rolling update adds as many series as the Service has pods. @defaultValue 0
   */
  readonly perEndpoint?: number | undefined;
  /**
   * Also report under the names of conventions: `http.client.*`, `rpc.client.*` and `db.client.*` of OpenTelemetry, `grpc.*` of gRPC. Leave out those that
   * one of your instrumentations already reports. @defaultValue []
   */
  readonly conventions?: readonly Convention[] | undefined;
}

/** Options of `instrument`. */
export interface InstrumentOptions extends MetricsOptions {
  /** A `Meter` of `@opentelemetry/api`, such as `metrics.getMeter('evenkeel')`. Without one, measures for `prometheusText`. */
  readonly meter?: MeterLike | undefined;
}

/**
 * Measures every balancer of this thread, including existing ones, and reports to OpenTelemetry. Returns `stop`, which ends the
 * reports. A second call with the same meter changes nothing. Throws EVENKEEL_OPTION. Metrics: docs/reference/metrics.md.
 *
 * @example instrument({ meter: metrics.getMeter('evenkeel') });
 */
export function instrument(options: InstrumentOptions = {}): { readonly stop: () => void } {
  checkKeys('options', options, ['meter', ...optionNames]);
  const selection = selectionOf(options);
  const { meter } = options;
  if (meter === undefined) {
    theCollector();
    return { stop: () => {} };
  }
  if (typeof meter?.createHistogram !== 'function' || typeof meter.addBatchObservableCallback !== 'function') {
    throw optionError('meter', 'a Meter of @opentelemetry/api', meter);
  }
  return { stop: bind(meter, selection) };
}

/** Options of `metricProducer`. */
export interface MetricProducerOptions extends MetricsOptions {
  /**
   * `cumulative`: counts since the process started. `delta`: counts since the last report, for backends that want differences; such a
   * producer serves one reader. @defaultValue 'cumulative'
   */
  readonly temporality?: Temporality | undefined;
}

/**
 * The metrics of every balancer of this thread for the `metricProducers` of an OpenTelemetry reader or Prometheus exporter
 * (`@opentelemetry/sdk-metrics` 1.17 and later). The same metrics as with `instrument({ meter })`, so use one of the two; this one
 * costs next to nothing per call. Throws EVENKEEL_OPTION.
 *
 * @example new PeriodicExportingMetricReader({ exporter, metricProducers: [metricProducer()] });
 */
export function metricProducer(options: MetricProducerOptions = {}): MetricProducerLike {
  checkKeys('options', options, ['temporality', ...optionNames]);
  const { temporality = 'cumulative' } = options;
  if (temporality !== 'cumulative' && temporality !== 'delta') {
    throw optionError('temporality', "'cumulative' or 'delta'", temporality);
  }
  return new Producer(selectionOf(options), temporality);
}

/**
 * The metrics of every balancer of this thread in Prometheus' text format, for a `/metrics` page, on its own or after the output of
 * prom-client. Durations are measured from the first call of this function or `instrument` on. Throws EVENKEEL_OPTION.
 *
 * @example response.setHeader('content-type', 'text/plain; version=0.0.4').end(prometheusText());
 */
export function prometheusText(options: MetricsOptions = {}): string {
  checkKeys('options', options, optionNames);
  return prometheusFormat(theCollector().collect(selectionOf(options)));
}

const optionNames = ['perEndpoint', 'conventions'] as const;

/** Checked, and measured from now on. */
function selectionOf({ perEndpoint, conventions = [] }: MetricsOptions): Selection {
  if (!Array.isArray(conventions)) {
    throw optionError('conventions', `a list of ${allConventions.join(', ')}`, conventions);
  }
  for (const convention of conventions) {
    if (!allConventions.includes(convention)) {
      throw optionError('conventions[]', `one of ${allConventions.join(', ')}`, convention);
    }
  }
  const selection = {
    perEndpoint: checkNumber('perEndpoint', perEndpoint, 0, { min: 0, max: 10_000, integer: true }),
    conventions,
  };
  theCollector().want(conventions);
  return selection;
}
