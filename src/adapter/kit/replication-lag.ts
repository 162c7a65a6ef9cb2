import type { Clock } from '../../runtime/clock.js';

/** How much of a replicated log a database server has. */
export interface LogPosition {
  /** Identifies the history that the log belongs to. Positions of different histories cannot be compared. A promotion begins a new one. */
  readonly history: string;
  /** How far the server is in its history, in the server's own unit, such as bytes. It only grows. */
  readonly offset: number;
  /** How many ms ago the server last heard of its primary. Undefined if the server does not say. */
  readonly silentMs: number | undefined;
}

/** The largest number of histories that are remembered; a Service has fewer at a time. */
const MAX_HISTORIES = 4;

/** Which replicas are behind, from the log positions that they and their primary report. */
export class ReplicationLag {
  readonly #maxMs: number;
  readonly #clock: Clock;
  readonly #logs = new Map<string, LogPositions>();
  /** The history of the primary's log, and since when it has that history. */
  #primary: { readonly history: string; readonly sinceMs: number } | undefined;

  /** @param maxMs The lag in ms from which a replica counts as behind. */
  constructor(maxMs: number, clock: Clock) {
    this.#maxMs = maxMs;
    this.#clock = clock;
  }

  /** A replica has reported this position. */
  reached({ history, offset }: LogPosition): void {
    let log = this.#logs.get(history);
    if (log === undefined) {
      log = new LogPositions(2 * this.#maxMs + 10_000);
      this.#logs.set(history, log);
      for (const oldest of this.#logs.keys()) if (this.#logs.size > MAX_HISTORIES) this.#logs.delete(oldest);
    }
    log.reached(offset, this.#clock.now());
  }

  /** The primary has reported this log position. Undefined: the primary does not answer. */
  primaryReached(position: LogPosition | undefined): void {
    if (position === undefined) {
      this.#primary = undefined;
      return;
    }
    const { history } = position;
    this.reached(position);
    if (this.#primary?.history !== history) this.#primary = { history, sinceMs: this.#clock.now() };
  }

  /** Whether a replica at this log position lags by more than the limit, judged by when the primary was first seen there. */
  isBehind({ history, offset, silentMs }: LogPosition): boolean {
    const nowMs = this.#clock.now();
    const primary = this.#primary;
    // The replica follows a different primary, or does not know about a promotion yet.
    const otherHistoryMs = primary === undefined || primary.history === history ? 0 : nowMs - primary.sinceMs;
    const lagMs = this.#logs.get(history)?.lagMs(offset, silentMs, nowMs) ?? 0;
    return Math.max(lagMs, otherHistoryMs) > this.#maxMs;
  }
}

/** One position in the log, and when a server of the Service first reported it. */
interface Mark {
  readonly atMs: number;
  readonly position: number;
}

/** The number of remembered log positions beyond which some are left out. */
const MAX_MARKS = 1_000;

/**
 * How far behind a server is: how long any server of the Service has known a position that this one has not replayed. Measured on our
 * own clock, and an idle primary makes no server late. Its precision depends on how often servers are queried.
 */
export class LogPositions {
  readonly #keepMs: number;
  /** The log positions from old to new; they increase. */
  #marks: Mark[] = [];

  /** @param keepMs The longest lag in ms that is measured exactly; longer lags need not be distinguished. */
  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** A server has the log up to this position. */
  reached(position: number, nowMs: number): void {
    const marks = this.#marks;
    const last = marks[marks.length - 1];
    if (last !== undefined && position <= last.position) return;
    marks.push({ atMs: nowMs, position });
    // The newest of the positions that are too old still shows which servers were up to date at that time.
    while (marks.length > 2 && (marks[1] as Mark).atMs < nowMs - this.#keepMs) marks.shift();
    if (marks.length > MAX_MARKS)
      this.#marks = marks.filter((_, index) => index % 2 === 0 || index === marks.length - 1);
  }

  /** Forgets all log positions: a new primary may begin below what the old one had written. */
  forget(): void {
    this.#marks = [];
  }

  /**
   * The lag of a server that has replayed the log up to `position`, in ms.
   * @param atMostMs An upper limit, from what the server reports; undefined = unknown. It decides until positions have been
   * recorded for long enough.
   */
  lagMs(position: number, atMostMs: number | undefined, nowMs: number): number {
    const index = this.#marks.findIndex((mark) => mark.position > position);
    if (index === -1) return 0;
    const seenMs = nowMs - (this.#marks[index] as Mark).atMs;
    return index > 0 ? seenMs : Math.max(seenMs, atMostMs ?? 0);
  }
}
