import type { Clock, Timer } from '../runtime/clock.js';

/**
 * What is to be rebuilt. `picker`: only the picker, over the same members. `stages`: the stages run again, then pool and picker follow.
 */
export type RebuildKind = 'picker' | 'stages';

export interface RebuildOwner {
  readonly clock: Clock;
  /** Does the rebuild named by `what`. Returns how long building the picker took, in ms. */
  work(what: RebuildKind): number;
  /**
   * While the current picker has nothing to pick: for how long a new one must wait for the endpoints of the first calls, in ms. Otherwise
   * undefined.
   */
  firstWaitMs(): number | undefined;
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

  #waitMs(): number {
    return this.#owner.firstWaitMs() ?? this.#owedUntilMs - FREE_MS - this.#owner.clock.now();
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
