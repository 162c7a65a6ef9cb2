/** One position in the write-ahead log, and when a server of the Service first reported it. */
interface Mark {
  readonly atMs: number;
  readonly position: number;
}

/** Beyond this number, marks are thinned out. */
const MAX_MARKS = 1_000;

/**
 * How far behind a server is: how long any server of the Service has known a position that this one has not replayed. Measured on our
 * own clock, and an idle primary makes no server late. Its precision depends on how often servers are queried.
 */
export class LogPositions {
  readonly #keepMs: number;
  /** From old to new, with increasing positions. */
  #marks: Mark[] = [];

  /** @param keepMs Longer lags need not be distinguished, in ms. */
  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** A server has the log up to this position. */
  reached(position: number, nowMs: number): void {
    const marks = this.#marks;
    const last = marks[marks.length - 1];
    if (last !== undefined && position <= last.position) return;
    marks.push({ atMs: nowMs, position });
    // The last of those that are too old still says who was up to date then.
    while (marks.length > 2 && (marks[1] as Mark).atMs < nowMs - this.#keepMs) marks.shift();
    if (marks.length > MAX_MARKS)
      this.#marks = marks.filter((_, index) => index % 2 === 0 || index === marks.length - 1);
  }

  /** A new primary may begin below what the old one had written. */
  forget(): void {
    this.#marks = [];
  }

  /**
   * The lag of a server that has replayed the log up to `position`, in ms.
   * @param commitAgeMs The age of the last commit it replayed, by its own clock: the most its lag can be. Decides while nobody has
   * watched for long enough.
   */
  lagMs(position: number, commitAgeMs: number | undefined, nowMs: number): number {
    const index = this.#marks.findIndex((mark) => mark.position > position);
    if (index === -1) return 0;
    const seenMs = nowMs - (this.#marks[index] as Mark).atMs;
    return index > 0 ? seenMs : Math.max(seenMs, commitAgeMs ?? 0);
  }
}
