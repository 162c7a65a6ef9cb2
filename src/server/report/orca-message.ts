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

/** Field numbers in ORCA's message `xds.data.orca.v3.OrcaLoadReport`. */
const CPU = 1;
const RPS = 6;
const EPS = 7;
const NAMED_METRICS = 8;
const APPLICATION = 9;

/** Protobuf's wire types for a double and for a length-delimited value: the lowest three bits of a field's tag. */
const DOUBLE = 1;
const BYTES = 2;

/** Encodes a load report as an `xds.data.orca.v3.OrcaLoadReport` in protobuf's binary form. */
export function encodeLoadReport(load: ReportedLoad): Buffer {
  const parts: Buffer[] = [];
  pushDouble(parts, CPU, load.cpu_utilization);
  pushDouble(parts, RPS, load.rps_fractional);
  pushDouble(parts, EPS, load.eps);
  for (const [name, value] of Object.entries(load.named_metrics)) {
    const key = Buffer.from(name, 'utf8');
    const entry: Buffer[] = [Buffer.from([(1 << 3) | BYTES, ...varint(key.length)]), key];
    pushDouble(entry, 2, value);
    const length = entry.reduce((sum, part) => sum + part.length, 0);
    parts.push(Buffer.from([(NAMED_METRICS << 3) | BYTES, ...varint(length)]), ...entry);
  }
  pushDouble(parts, APPLICATION, load.application_utilization);
  return Buffer.concat(parts);
}

function pushDouble(parts: Buffer[], field: number, value: number | undefined): void {
  if (value === undefined) return;
  const part = Buffer.allocUnsafe(9);
  part[0] = (field << 3) | DOUBLE;
  part.writeDoubleLE(value, 1);
  parts.push(part);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 0x80) return [...bytes, rest];
    bytes.push((rest & 0x7f) | 0x80);
  }
}
