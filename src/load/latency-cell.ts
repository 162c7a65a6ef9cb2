// What `relativeLatency` knows about an endpoint: the layout of its cell, and how a call changes it.

// Offsets in the cell.
/** The cost of a call, in units: all that a pick reads. 0 = nothing known, counts as 1 call. */
export const COST = 0;
/** Moving average of the latency, in ms. */
export const LATENCY = 1;
/** When the latency was last updated. */
export const UPDATED = 2;
/** Number of calls measured. */
export const SAMPLES = 3;
/** Share of recent calls that failed, 0 to 1. */
export const FAILING = 4;
/** When that share was last updated. */
export const FAILING_AT = 5;
/** Other clients' calls in flight as last reported, plus 1; 0 = never reported. */
export const OTHERS = 6;
/** When they were reported. */
export const REPORTED_AT = 7;
/** Latency of the first call, in ms. */
export const FIRST = 8;
/** 1 if the endpoint counts its requests in flight, so it can be probed. */
export const COUNTS = 9;
export const FIELDS = 10;

/** One sample moves the average by at least this share … */
const LEAST_STEP = 0.1;
/** … and by more if the last one is old, in ms. */
const AVERAGE_MS = 2_000;
/** Gaps up to this long move the average by `LEAST_STEP`, in ms. */
export const SHORT_GAP_MS: number = -AVERAGE_MS * Math.log(1 - LEAST_STEP);
/** Of this many first calls the fastest counts, since they also pay for a cold start … */
export const FIRST_SAMPLES = 8;
/** … unless the gap since the last is at least this long, in ms: by then half of it is forgotten. */
const LONG_GAP_MS = AVERAGE_MS * Math.LN2;
/** In this time an endpoint without calls loses all but a third of its excess latency and of its failures, in ms. */
export const FORGIVEN_MS = 20_000;
/** How much one call changes the share of failures. */
const FAILURE_STEP = 1 / 16;
/** Below this share of failures the cost factor is under 1.02: not worth computing. */
export const FEW_FAILURES = 0.01;

/** A call took `sampleMs`. */
export function learn(numbers: Float64Array, at: number, sampleMs: number, nowMs: number): void {
  const samples = numbers[at + SAMPLES] as number;
  const latencyMs = numbers[at + LATENCY] as number;
  const gapMs = nowMs - (numbers[at + UPDATED] as number);
  if (samples === 0) {
    numbers[at + LATENCY] = sampleMs;
    numbers[at + FIRST] = sampleMs;
  } else if (samples < FIRST_SAMPLES && gapMs < LONG_GAP_MS) numbers[at + LATENCY] = Math.min(latencyMs, sampleMs);
  else {
    const step = gapMs > SHORT_GAP_MS ? 1 - Math.exp(-gapMs / AVERAGE_MS) : LEAST_STEP;
    numbers[at + LATENCY] = latencyMs + (sampleMs - latencyMs) * step;
  }
  numbers[at + SAMPLES] = samples + 1;
  numbers[at + UPDATED] = nowMs;
}

/** @param failed 1 or 0. */
export function learnFailure(numbers: Float64Array, at: number, failed: number, nowMs: number): void {
  const kept = Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
  const failing = (numbers[at + FAILING] as number) * kept;
  const next = failing + (failed - failing) * FAILURE_STEP;
  numbers[at + FAILING] = failed === 0 && next < FEW_FAILURES / 10 ? 0 : next;
  numbers[at + FAILING_AT] = nowMs;
}
