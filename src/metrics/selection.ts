import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { Selection } from './collector.js';

/** Options of every function that reports metrics. An invalid option throws EVENKEEL_OPTION. */
export interface MetricsOptions {
  /**
   * How many endpoints of each balancer get series of their own (`evenkeel.endpoint.*`), at most 10,000. Pods come and go, so each rolling
   * update adds as many series as the Service has pods. @defaultValue 0
   */
  readonly perEndpoint?: number | undefined;
}

export const metricsTable: OptionTable<Complete<MetricsOptions>> = optionTable('options', {
  perEndpoint: numberOption(0, { min: 0, max: 10_000, integer: true }),
});

/** Checks the options for reporting metrics and returns what they select. Throws EVENKEEL_OPTION. */
export function selectionOf(options: MetricsOptions): Selection {
  return metricsTable.resolveOwn(options);
}
