import type { Protocol } from '../observe/live-balancers.js';

/** Naming conventions that metrics may use besides evenkeel's own: OpenTelemetry's for HTTP and databases, gRPC's proposals for gRPC. */
export type Convention = Protocol['conventions'] | 'rpc';

/** All naming conventions. */
export const conventions: readonly Convention[] = Object.freeze(['http', 'grpc', 'rpc', 'db']);

/**
 * - `counter`: only grows, even as balancers of the same target come and go.
 * - `gauge`: the current value. For several balancers of one target, their sum, maximum or minimum (`combine`).
 * - `histogram`: durations.
 */
export interface Metric {
  /** `counter` only grows; `gauge` is a value of the moment; `histogram` counts durations in buckets. */
  readonly kind: 'counter' | 'gauge' | 'histogram';
  /** The metric's unit in the notation of OpenTelemetry (UCUM). */
  readonly unit: `{${string}}` | '1' | 's';
  /** What the metric means, in one sentence that is passed to OpenTelemetry and Prometheus. */
  readonly description: string;
  /** How the values of several balancers with the same attributes become one. @defaultValue 'sum' */
  readonly combine?: 'sum' | 'largest' | 'smallest';
  /** Whether the gauge's series add up to a whole: an `UpDownCounter` in OpenTelemetry. */
  readonly additive?: true;
  /** The naming convention that the metric belongs to: it is reported only if that is enabled. */
  readonly convention?: Convention;
  /** Names of the metric's attributes in addition to `evenkeel.target`, or to those of the server in metrics of a convention. */
  readonly attributes?: readonly string[];
  /** Whether it also has one series per endpoint; only where the option `perEndpoint` asks for them. */
  readonly perEndpoint?: true;
}
