/** What a report says, by the names of ORCA (`xds.data.orca.v3.OrcaLoadReport`). Those not known are left out. */
export interface ReportedLoad {
  /** 0 = idle, 1 = full. */
  readonly application_utilization?: number;
  /** CPU against the limit of this pod, 0 to 1, or above. */
  readonly cpu_utilization?: number;
  /** Requests and failures per second. */
  readonly rps_fractional?: number;
  readonly eps?: number;
  readonly named_metrics: Readonly<Record<string, number>>;
}
