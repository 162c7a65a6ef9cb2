import type { Clock, Timer } from '../runtime/clock.js';

/**
 * What is to be rebuilt. `picker`: only the picker, over the same members. `stages`: the stages run again, then pool and picker follow.
 */
export type RebuildKind = 'picker' | 'stages';

export interface RebuildOwner {
  readonly clock: Clock;
  /** Does the rebuild named by `what`. Returns how long building the picker took, in ms. */
  work(what: RebuildKind): number;
  /** Whether a new picker must not be delayed, because the current one has nothing to pick. */
  isUrgent(): boolean;
  /** Whether some endpoint is ready, but the endpoints drawn for the first calls are still connecting. */
  isConnectingFirst(): boolean;
}

/**
 * Building pickers only because connections opened or closed may take at most about a tenth of all time: each such picker is followed by a
 * pause of this many times its build time.
 */
const PAUSE_PER_BUILD = 10;
/**
 * A picker is delayed only while more than this many ms of pauses are owed for earlier pickers, which sets of ordinary size never reach.
 */
const FREE_MS = 200;
/**
 * How long the first callers wait for a second connection, in ms. Otherwise the first callers of all clients would go to the fastest pod.
 */
const FIRST_WAIT_MS = 20;
/**
 * How many rebuilds in a row may each request the next. A stage that requests a rebuild every time it runs would otherwise block the event
 * loop.
 */
const MAX_IN_ROW = 16;
/** The longest delay of a new picker, in ms. Meanwhile calls go to the few endpoints that connected first. */
const MAX_WAIT_MS = 100;

/**
 * Collects changes and rebuilds once at the end of the turn of the event loop. A new set or a stage's decision is never delayed. A new
 * picker that is due only because a connection opened or closed may be: with 10,000 endpoints that connect one by one, a picker for each
 * would take O(n²). Meanwhile the old picker skips endpoints that lost their connection, and only lacks those that just connected.
 */
export class RebuildScheduler {
  readonly #owner: RebuildOwner;
  #pending: RebuildKind | undefined;
  #deferred = false;
  #timer: Timer | undefined;
  /** When the pauses owed for earlier pickers are over, in ms on the balancer's clock. */
  #owedUntilMs = 0;
  /** Until when the first callers wait for a second connection, in ms on the balancer's clock; undefined if they do not wait. */
  #firstWaitUntilMs: number | undefined;
  #closed = false;
  #isRunning = false;
  /** How many rebuilds in a row were each requested by the rebuild before. */
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

  /** A connection could not be opened, so first callers may no longer have to wait for it. */
  reconsider(): void {
    if (this.#firstWaitUntilMs !== undefined) this.request('picker');
  }

  /** Whether it is too early for the first picker, because a second connection is awaited. If so, a later rebuild is scheduled. */
  mustWait(): boolean {
    if (!this.#owner.isUrgent() || this.#firstWaitMs() === 0) return false;
    this.request('picker');
    return true;
  }

  #waitMs(): number {
    const owner = this.#owner;
    if (owner.isUrgent()) return this.#firstWaitMs();
    this.#firstWaitUntilMs = undefined;
    return this.#owedUntilMs - FREE_MS - owner.clock.now();
  }

  /** How long the first callers still wait for a second connection, in ms; 0 = they need not wait. */
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

  /** Cancels the scheduled rebuild, and ignores further requests. */
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
    this.#owedUntilMs = Math.max(this.#owedUntilMs, this.#owner.clock.now()) + costMs * PAUSE_PER_BUILD;
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
