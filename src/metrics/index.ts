import { checkKeys } from '../runtime/check.js';
import { theCollector } from './collector.js';
import { prometheusFormat } from './prometheus.js';
import { type MetricsOptions, metricsTable, selectionOf } from './selection.js';

export { catalogue as metricCatalogue, type MetricName } from './catalogue.js';
export type { Metric } from './metric.js';
export type { MetricsOptions };

/**
 * Returns the metrics of every balancer of this thread in Prometheus' text format, for a `/metrics` page; the text can follow that of
 * prom-client. Durations are measured from the first call of this function on. Throws EVENKEEL_OPTION for invalid options.
 *
 * @example response.setHeader('content-type', 'text/plain; version=0.0.4').end(prometheusText());
 */
export function prometheusText(options: MetricsOptions = {}): string {
  checkKeys('options', options, metricsTable.names);
  return prometheusFormat(theCollector().collect(selectionOf(options)));
}
