import { metrics } from '@opentelemetry/api';
import { bind, type MeterLike } from '../metrics/opentelemetry.js';
import { type MetricProducerLike, Producer, type Temporality } from '../metrics/producer.js';
import { type MetricsOptions, metricsTable, selectionOf } from '../metrics/selection.js';
import { checkKeys, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { choiceOption, optionTable } from '../runtime/options.js';
import { ownProperties } from '../runtime/own-properties.js';

/** Options of `instrumentMetrics`: the meter, and which metrics are reported. An invalid option throws EVENKEEL_OPTION. */
export interface InstrumentMetricsOptions extends MetricsOptions {
  /** The meter that reports the metrics. @defaultValue `metrics.getMeter('evenkeel')` of the global meter provider */
  readonly meter?: MeterLike | undefined;
}

/**
 * Measures every balancer of this thread, including existing ones, and reports to OpenTelemetry. Returns `stop`, which ends the reports. A
 * second call with the same meter changes nothing. docs/reference/metrics.md lists the metrics. Throws EVENKEEL_OPTION for invalid options.
 *
 * @example instrumentMetrics();
 */
export function instrumentMetrics(options: InstrumentMetricsOptions = {}): { readonly stop: () => void } {
  checkKeys('options', options, ['meter', ...metricsTable.names]);
  const selection = selectionOf(options);
  const { meter = metrics.getMeter('evenkeel') } = ownProperties(options);
  if (typeof meter?.createHistogram !== 'function' || typeof meter.addBatchObservableCallback !== 'function') {
    throw optionError('meter', 'a Meter of @opentelemetry/api', meter);
  }
  return { stop: bind(meter, selection) };
}

/** Options of `metricProducer`: how counts are reported, and which metrics. An invalid option throws EVENKEEL_OPTION. */
export interface MetricProducerOptions extends MetricsOptions {
  /**
   * How counts are reported. `cumulative`: since the process started. `delta`: since the last report, for backends that want differences;
   * such a producer can serve only one reader. @defaultValue 'cumulative'
   */
  readonly temporality?: Temporality | undefined;
}

const producerTable = optionTable<Complete<MetricProducerOptions>>('options', {
  ...metricsTable.options,
  temporality: choiceOption('cumulative', ['cumulative', 'delta']),
});

/**
 * Returns a producer of the metrics of every balancer of this thread, for the `metricProducers` of an OpenTelemetry reader or Prometheus
 * exporter (`@opentelemetry/sdk-metrics` 1.17 and later). It reports the metrics that `instrumentMetrics()` does, so use one of the two;
 * the producer costs next to nothing per call. Throws EVENKEEL_OPTION for invalid options.
 *
 * @example new PeriodicExportingMetricReader({ exporter, metricProducers: [metricProducer()] });
 */
export function metricProducer(options: MetricProducerOptions = {}): MetricProducerLike {
  const { temporality } = producerTable.resolve(options);
  return new Producer(selectionOf(options), temporality);
}
