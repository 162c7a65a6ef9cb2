/** A report, with ORCA's field names (`xds.data.orca.v3.OrcaLoadReport`). Unknown values are left out. */
export interface ReportedLoad {
  /** 0 = idle, 1 = full. */
  readonly application_utilization?: number;
  /** CPU use relative to this pod's limit, 0 to 1, or above. */
  readonly cpu_utilization?: number;
  /** Requests and failures per second. */
  readonly rps_fractional?: number;
  /** Failures per second. */
  readonly eps?: number;
  /** The application's own numbers; empty if it reports none. */
  readonly named_metrics: Readonly<Record<string, number>>;
}
