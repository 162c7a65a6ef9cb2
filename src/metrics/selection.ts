import { optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { checkedOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { type Selection, theCollector } from './collector.js';
import { conventions as allConventions, type Convention } from './metric.js';

/**
 * Options of every function that reports metrics: which endpoints get series of their own, and under which naming conventions metrics are
 * reported too. An invalid option throws EVENKEEL_OPTION.
 */
export interface MetricsOptions {
  /**
   * How many endpoints of each balancer get series of their own (`evenkeel.endpoint.*`), at most 10,000. Pods come and go, so each rolling
   * update adds as many series as the Service has pods. @defaultValue 0
   */
  readonly perEndpoint?: number | undefined;
  /**
   * Naming conventions under which metrics are reported in addition to evenkeel's own names: `http.client.*`, `rpc.client.*` and
   * `db.client.*` of OpenTelemetry, `grpc.*` of gRPC. Leave out those that one of your instrumentations already reports. @defaultValue []
   */
  readonly conventions?: readonly Convention[] | undefined;
}

export const metricsTable: OptionTable<Complete<MetricsOptions>> = optionTable('options', {
  perEndpoint: numberOption(0, { min: 0, max: 10_000, integer: true }),
  conventions: checkedOption<readonly Convention[]>([], (name, value) => {
    const known = allConventions.join(', ');
    if (!Array.isArray(value)) throw optionError(name, `a list of ${known}`, value);
    for (const convention of value) {
      if (!allConventions.includes(convention)) throw optionError(`${name}[]`, `one of ${known}`, convention);
    }
    return value;
  }),
});

/** Checks the options for reporting metrics and returns what they select, which is measured from now on. Throws EVENKEEL_OPTION. */
export function selectionOf(options: MetricsOptions): Selection {
  const selection = metricsTable.resolveOwn(options);
  theCollector().want(selection.conventions);
  return selection;
}
