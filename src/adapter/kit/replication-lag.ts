import type { Clock } from '../../runtime/clock.js';

/** How much of a replicated log a server has. */
export interface LogPosition {
  /** Positions of different histories cannot be compared. A promotion begins a new one. */
  readonly history: string;
  /** How far the server is in that history, in its own unit, such as bytes. Only grows. */
  readonly offset: number;
  /** When it last heard of its primary, in ms ago. Undefined if it does not say. */
  readonly silentMs: number | undefined;
}

/** More histories than a Service has at a time. */
const MAX_HISTORIES = 4;

/** Which replicas are behind, from the log positions that they and their primary report. */
export class ReplicationLag {
  readonly #maxMs: number;
  readonly #clock: Clock;
  readonly #logs = new Map<string, LogPositions>();
  /** The history of the primary, and since when. */
  #primary: { readonly history: string; readonly sinceMs: number } | undefined;

  /** @param maxMs The lag from which a replica counts as behind, in ms. */
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

  /** The primary has reported this position. Undefined: it does not answer. */
  primaryReached(position: LogPosition | undefined): void {
    if (position === undefined) {
      this.#primary = undefined;
      return;
    }
    const { history } = position;
    this.reached(position);
    if (this.#primary?.history !== history) this.#primary = { history, sinceMs: this.#clock.now() };
  }

  /** Whether a replica at this position lags by more than the limit, judged by when the primary was seen there. */
  isBehind({ history, offset, silentMs }: LogPosition): boolean {
    const nowMs = this.#clock.now();
    const primary = this.#primary;
    // The replica follows another server, or does not know about a promotion yet.
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

/** Beyond this number, marks are thinned out. */
const MAX_MARKS = 1_000;

/**
 * How far behind a server is: how long any server of the Service has known a position that this one has not replayed. Measured on our
 * own clock, and an idle primary makes no server late. Its precision depends on how often servers are queried.
 */
export class LogPositions {
  readonly #keepMs: number;
  /** The positions from old to new; they increase. */
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
