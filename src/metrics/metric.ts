import type { Protocol } from '../observe/live-balancers.js';

/**
 * A naming convention under which metrics can be reported in addition to evenkeel's own names: OpenTelemetry's for HTTP, RPC and databases,
 * and gRPC's.
 */
export type Convention = Protocol['conventions'] | 'rpc';

/** All naming conventions. */
export const conventions: readonly Convention[] = Object.freeze(['http', 'grpc', 'rpc', 'db']);

/** The description of one metric. */
export interface Metric {
  /** `counter` only grows; `gauge` is a value of the moment; `histogram` counts durations in buckets. */
  readonly kind: 'counter' | 'gauge' | 'histogram';
  /** The metric's unit in the notation of OpenTelemetry (UCUM). */
  readonly unit: `{${string}}` | '1' | 's';
  /** What the metric means, in one sentence that is passed to OpenTelemetry and Prometheus. */
  readonly description: string;
  /** How the values of several balancers with equal attributes become one value. @defaultValue 'sum' */
  readonly combine?: 'sum' | 'largest' | 'smallest';
  /** Whether the series of a gauge add up to a whole, which makes it an `UpDownCounter` in OpenTelemetry. */
  readonly additive?: true;
  /**
   * The naming convention that the metric belongs to. It is reported only if the options name that convention. Absent = a metric of
   * evenkeel's own.
   */
  readonly convention?: Convention;
  /** The names of the metric's attributes, in addition to `evenkeel.target`, or to the server's attributes for metrics of a convention. */
  readonly attributes?: readonly string[];
  /** Whether the metric has one series per endpoint, which is reported only with the option `perEndpoint`. */
  readonly perEndpoint?: true;
}
