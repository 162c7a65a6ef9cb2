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
  /** The names of the metric's attributes, in addition to `evenkeel.target`. */
  readonly attributes?: readonly string[];
  /** Whether the metric has one series per endpoint, which is reported only with the option `perEndpoint`. */
  readonly perEndpoint?: true;
}
