import type { Clock, Timer } from '../runtime/clock.js';

/** What to rebuild: only the picker, over the same members; or stages, pool and picker. */
export type RebuildKind = 'picker' | 'stages';

export interface RebuildOwner {
  readonly clock: Clock;
  /** Rebuilds what is named; returns how long building the picker took, in ms. */
  work(what: RebuildKind): number;
  /** Whether a new picker cannot be delayed, because the current one has nothing to pick. */
  isUrgent(): boolean;
  /** Whether something is ready, but the endpoints drawn for the first calls are still connecting. */
  isConnectingFirst(): boolean;
}

/**
 * Pickers that are built only because connections opened or closed may take a tenth of all time: each is followed by a pause of this many
 * times the time it took to build.
 */
const OWED_FACTOR = 10;
/**
 * The next picker is delayed only if the pauses after earlier pickers add up to more than this, in ms. Sets of ordinary size never reach
 * it.
 */
const CREDIT_MS = 200;
/**
 * How long the first callers wait for a second connection, in ms. Otherwise the first callers of all clients would go to the fastest pod.
 */
const FIRST_WAIT_MS = 20;
/** How many rebuilds in a row may cause the next one. A stage that requests one each time would block the event loop. */
const MAX_IN_ROW = 16;
/** The longest delay of a new picker, in ms: until then the first calls go to the few endpoints that connected first. */
const MAX_WAIT_MS = 100;

/**
 * Collects changes and rebuilds once at the end of the turn. A new set or verdict is never delayed. A new picker caused by a
 * connection that opened or closed may be: with 10,000 endpoints connecting one by one, building one each time would be
 * O(n²). The old picker skips endpoints that lost their connection, and only lacks those that just connected.
 */
export class RebuildScheduler {
  readonly #owner: RebuildOwner;
  #pending: RebuildKind | undefined;
  #deferred = false;
  #timer: Timer | undefined;
  /** When the pauses after the pickers built so far are over, on the clock in ms. */
  #owedUntilMs = 0;
  /** Until when the first callers wait for a second connection, on the clock in ms; undefined if they need not. */
  #firstWaitUntilMs: number | undefined;
  #closed = false;
  #isRunning = false;
  /** How many rebuilds in a row were requested by the rebuild before them. */
  #inRow = 0;
  #isRequested = false;

  constructor(owner: RebuildOwner) {
    this.#owner = owner;
  }

  request(what: RebuildKind): void {
    if (this.#closed) return;
    if (this.#pending !== 'stages') this.#pending = what;
    if (this.#deferred) return;
    const { clock } = this.#owner;
    if (this.#isRunning) this.#isRequested = true;
    const waitMs = this.#isRunning && this.#inRow >= MAX_IN_ROW ? MAX_WAIT_MS : what === 'stages' ? 0 : this.#waitMs();
    if (waitMs > 0) {
      this.#timer ??= clock.timer(() => this.#run(), Math.min(waitMs, MAX_WAIT_MS));
      return;
    }
    this.#deferred = true;
    clock.defer(() => this.#run());
  }

  /** A connection could not be opened: the first callers need not wait for it any longer. */
  reconsider(): void {
    if (this.#firstWaitUntilMs !== undefined) this.request('picker');
  }

  /** Whether it is too early for a new picker. If so, schedules a rebuild. */
  mustWait(): boolean {
    if (!this.#owner.isUrgent() || this.#firstWaitMs() === 0) return false;
    this.request('picker');
    return true;
  }

  #waitMs(): number {
    const owner = this.#owner;
    if (owner.isUrgent()) return this.#firstWaitMs();
    this.#firstWaitUntilMs = undefined;
    return this.#owedUntilMs - CREDIT_MS - owner.clock.now();
  }

  /** How long the first callers still wait for a second connection, in ms. */
  #firstWaitMs(): number {
    const owner = this.#owner;
    if (!owner.isConnectingFirst()) {
      this.#firstWaitUntilMs = undefined;
      return 0;
    }
    const nowMs = owner.clock.now();
    this.#firstWaitUntilMs ??= nowMs + FIRST_WAIT_MS;
    return Math.max(0, this.#firstWaitUntilMs - nowMs);
  }

  /** Cancels the scheduled rebuild. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #run(): void {
    this.#deferred = false;
    this.#timer?.cancel();
    this.#timer = undefined;
    const what = this.#pending;
    this.#pending = undefined;
    if (this.#closed || what === undefined) return;
    this.#inRow = this.#isRequested ? this.#inRow + 1 : 0;
    this.#isRequested = false;
    const costMs = this.#work(what);
    this.#owedUntilMs = Math.max(this.#owedUntilMs, this.#owner.clock.now()) + costMs * OWED_FACTOR;
  }

  #work(what: RebuildKind): number {
    this.#isRunning = true;
    try {
      return this.#owner.work(what);
    } finally {
      this.#isRunning = false;
    }
  }
}
