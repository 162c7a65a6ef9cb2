/**
 * The upper bounds of a histogram's buckets, in seconds: those that OpenTelemetry recommends for client durations, and three lower ones for
 * calls within a cluster.
 */
export const durationBounds: readonly number[] = Object.freeze([
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
]);

/** Counts durations by bucket. Recording a duration allocates nothing. */
export class Histogram {
  /** How many durations each bucket has counted. There is one bucket more than bounds, for durations above all of them. */
  readonly counts: Float64Array = new Float64Array(durationBounds.length + 1);
  sum = 0;

  /** Adds a duration. @param seconds At least 0. */
  record(seconds: number): void {
    let bucket = 0;
    while (bucket < durationBounds.length && seconds > (durationBounds[bucket] as number)) bucket++;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += seconds;
  }

  copy(): Histogram {
    const copy = new Histogram();
    copy.counts.set(this.counts);
    copy.sum = this.sum;
    return copy;
  }

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }
}
