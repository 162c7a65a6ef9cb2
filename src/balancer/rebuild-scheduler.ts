import type { Clock, Timer } from '../runtime/clock.js';

/** What may be due: a new picker over the same members, or stages, pool and a new picker. */
export type RebuildKind = 'picker' | 'stages';

export interface RebuildOwner {
  readonly clock: Clock;
  /** Does what is due; returns how long building the picker took, in ms. */
  work(what: RebuildKind): number;
  /** Whether a new picker cannot be delayed, because the current one has nothing to pick. */
  isUrgent(): boolean;
  /** Whether it still waits a moment: something is ready, and the endpoints drawn for the first calls are about to be. */
  isConnectingFirst(): boolean;
}

/**
 * New pickers caused only by readiness may take a tenth of the time: each is followed by a pause of this many times its cost.
 */
const OWED_FACTOR = 10;
/** The next picker waits only if more than this is owed, in ms: never with sets of ordinary size. */
const CREDIT_MS = 200;
/** How long the first callers wait for connections beyond the first, in ms: otherwise those of all clients would go there. */
const FIRST_WAIT_MS = 20;
/** How many runs in a row may ask for another; a stage that always does would block the event loop. */
const MAX_IN_ROW = 16;
/** The longest delay, in ms: until then the first calls go to the few endpoints that connected first. */
const MAX_WAIT_MS = 100;

/**
 * Collects what changes require, and does it once at the end of the turn. A set or a verdict is never delayed. New pickers
 * caused by a connection that came or went may be: with 10,000 endpoints connecting one by one, building one each time would be
 * O(n²). The old picker skips endpoints that lost their connection, and only lacks those that just connected.
 */
export class RebuildScheduler {
  readonly #owner: RebuildOwner;
  #pending: RebuildKind | undefined;
  #deferred = false;
  #timer: Timer | undefined;
  /** When the pickers built so far are paid off. */
  #owedUntilMs = 0;
  /** Until when the first callers wait; undefined if none has to. */
  #firstWaitUntilMs: number | undefined;
  #closed = false;
  #isRunning = false;
  /** How many runs in a row were requested by the previous run. */
  #inRow = 0;
  #asked = false;

  constructor(owner: RebuildOwner) {
    this.#owner = owner;
  }

  request(what: RebuildKind): void {
    if (this.#closed) return;
    if (this.#pending !== 'stages') this.#pending = what;
    if (this.#deferred) return;
    const { clock } = this.#owner;
    if (this.#isRunning) this.#asked = true;
    const waitMs = this.#isRunning && this.#inRow >= MAX_IN_ROW ? MAX_WAIT_MS : what === 'stages' ? 0 : this.#waitMs();
    if (waitMs > 0) {
      this.#timer ??= clock.timer(() => this.#run(), Math.min(waitMs, MAX_WAIT_MS));
      return;
    }
    this.#deferred = true;
    clock.defer(() => this.#run());
  }

  /** A connection could not be opened: nothing needs to wait for it any longer. */
  reconsider(): void {
    if (this.#firstWaitUntilMs !== undefined) this.request('picker');
  }

  /** Whether a new picker would be too early. If so, schedules it. */
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

  /** How long the first callers still wait, in ms. */
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

  /** Cancels what is due. */
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
    this.#inRow = this.#asked ? this.#inRow + 1 : 0;
    this.#asked = false;
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
