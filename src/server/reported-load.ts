/** A load report with ORCA's field names (`xds.data.orca.v3.OrcaLoadReport`). Values that are unknown are left out. */
export interface ReportedLoad {
  /** How full the application is: 0 = idle, 1 = full. */
  readonly application_utilization?: number;
  /** CPU use relative to this pod's limit, 0 to 1, or above. */
  readonly cpu_utilization?: number;
  /** How many requests began per second. */
  readonly rps_fractional?: number;
  /** How many requests failed per second. */
  readonly eps?: number;
  /** The application's own metrics and evenkeel's, by name. */
  readonly named_metrics: Readonly<Record<string, number>>;
}
