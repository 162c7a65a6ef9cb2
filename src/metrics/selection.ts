import { checkNumber, optionError } from '../runtime/check.js';
import { type Selection, theCollector } from './collector.js';
import { conventions as allConventions, type Convention } from './metric.js';

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

/** Names of `MetricsOptions`. */
export const metricsOptionNames = ['perEndpoint', 'conventions'] as const;

/** Checked; what it selects is measured from now on. Throws EVENKEEL_OPTION. */
export function selectionOf({ perEndpoint, conventions = [] }: MetricsOptions): Selection {
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
