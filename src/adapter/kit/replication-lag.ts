import type { Clock } from '../../runtime/clock.js';

/** How far a database server has received or replayed its replicated log. */
export interface LogPosition {
  /**
   * Identifies the history that the log belongs to. A promotion begins a new history, and positions of different histories cannot be
   * compared.
   */
  readonly history: string;
  /** How far the server is in its history, in the server's own unit, such as bytes. Within one history this number only grows. */
  readonly offset: number;
  /** How many ms ago the server last received something from its primary; undefined if the server does not say. */
  readonly silentMs: number | undefined;
}

/** How many histories are remembered. A Service has fewer at any time, so only old ones are dropped. */
const MAX_HISTORIES = 4;

/** Finds the replicas that lag, by comparing the log positions that replicas and primary report. */
export class ReplicationLag {
  readonly #maxMs: number;
  readonly #clock: Clock;
  readonly #logs = new Map<string, LogPositions>();
  /** The history of the primary's log, and when the primary was first seen with that history. */
  #primary: { readonly history: string; readonly sinceMs: number } | undefined;

  /** @param maxMs A replica that lags by more than this many ms counts as behind. */
  constructor(maxMs: number, clock: Clock) {
    this.#maxMs = maxMs;
    this.#clock = clock;
  }

  /** Records that some server reported this log position. */
  reached({ history, offset }: LogPosition): void {
    let log = this.#logs.get(history);
    if (log === undefined) {
      log = new LogPositions(2 * this.#maxMs + 10_000);
      this.#logs.set(history, log);
      for (const oldest of this.#logs.keys()) if (this.#logs.size > MAX_HISTORIES) this.#logs.delete(oldest);
    }
    log.reached(offset, this.#clock.now());
  }

  /** Records the log position that the primary reported. Undefined: the primary does not respond. */
  primaryReached(position: LogPosition | undefined): void {
    if (position === undefined) {
      this.#primary = undefined;
      return;
    }
    const { history } = position;
    this.reached(position);
    if (this.#primary?.history !== history) this.#primary = { history, sinceMs: this.#clock.now() };
  }

  /**
   * Whether a replica at this log position lags by more than the limit. The lag counts from the time when any server was first seen further
   * ahead.
   */
  isBehind({ history, offset, silentMs }: LogPosition): boolean {
    const nowMs = this.#clock.now();
    const primary = this.#primary;
    // A replica with another history follows a different primary, or has not noticed a promotion yet.
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

/** Beyond this number of remembered log positions, every second one is dropped. */
const MAX_MARKS = 1_000;

/**
 * The log positions of one history, and when each was first seen. A server lags by the time for which some server has known a position that
 * the lagging server has not replayed. All times come from the client's clock, and an idle primary makes no replica lag. The more often
 * servers are queried, the more precise the lag.
 */
export class LogPositions {
  readonly #keepMs: number;
  /** The log positions in ascending order, which is also the order of their times. */
  #marks: Mark[] = [];

  /** @param keepMs Lags up to this many ms are measured exactly; longer ones need not be told apart. */
  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** Records that a server has the log up to `position`. */
  reached(position: number, nowMs: number): void {
    const marks = this.#marks;
    const last = marks[marks.length - 1];
    if (last !== undefined && position <= last.position) return;
    marks.push({ atMs: nowMs, position });
    // The newest of the expired positions stays, because it shows which servers were up to date at that time.
    while (marks.length > 2 && (marks[1] as Mark).atMs < nowMs - this.#keepMs) marks.shift();
    if (marks.length > MAX_MARKS)
      this.#marks = marks.filter((_, index) => index % 2 === 0 || index === marks.length - 1);
  }

  /** Forgets all log positions, because a new primary may begin below what the old primary had written. */
  forget(): void {
    this.#marks = [];
  }

  /**
   * The lag in ms of a server that has replayed the log up to `position`.
   *
   * @param atMostMs An upper limit of the lag, derived from the server's own report; undefined = unknown. It decides until positions have
   * been recorded for long enough.
   */
  lagMs(position: number, atMostMs: number | undefined, nowMs: number): number {
    const index = this.#marks.findIndex((mark) => mark.position > position);
    if (index === -1) return 0;
    const seenMs = nowMs - (this.#marks[index] as Mark).atMs;
    return index > 0 ? seenMs : Math.max(seenMs, atMostMs ?? 0);
  }
}
