import type { Clock, Timer } from '../runtime/clock.js';

/** What can be due: a new picker over the same members, or the stages, the pool and a new picker. */
export type RebuildKind = 'picker' | 'stages';

export interface RebuildOwner {
  readonly clock: Clock;
  /** Does what is due; returns how long the picker part took, in ms. */
  work(what: RebuildKind): number;
  /** Whether a new picker cannot wait for its cost to be paid off: the present one has nothing to pick. */
  isUrgent(): boolean;
  /** Whether it waits a moment nevertheless: something is ready, and who ought to get the first calls is about to be. */
  isGathering(): boolean;
}

/** New pickers for mere readiness may take a tenth of the time: after each, this many times its cost is owed. */
const OWED_FACTOR = 10;
/** So much may be owed before the next has to wait, in ms: sets of ordinary size never do. */
const CREDIT_MS = 200;
/** The callers of a start wait so long for other connections than the first, in ms: else those of all clients would go there. */
const GATHER_MS = 20;
/** A run may ask for another so often in a row; a stage that does so each time would stop the event loop. */
const MAX_IN_ROW = 16;
/** The longest wait, in ms: until then the calls of a start go to the few that connected first. */
const MAX_WAIT_MS = 100;

/**
 * Collects what changes call for, and does it once at the end of the turn. A set or a verdict is never delayed. New
 * pickers because a connection came or went may be: with 10,000 endpoints connecting one by one, building one each time
 * would be O(n²). The old picker skips what lost its connection, and only lacks what has just come.
 */
export class RebuildScheduler {
  readonly #owner: RebuildOwner;
  #pending: RebuildKind | undefined;
  #deferred = false;
  #timer: Timer | undefined;
  /** Until when the pickers built so far are paid off. */
  #owedUntilMs = 0;
  /** Until when the callers of a start wait; undefined while none has to. */
  #gatherUntilMs: number | undefined;
  #closed = false;
  #isRunning = false;
  /** How many runs in a row were asked for by the run before. */
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

  /** A connection could not be opened: what waits for it need not wait any longer. */
  reconsider(): void {
    if (this.#gatherUntilMs !== undefined) this.request('picker');
  }

  /** Whether a new picker would come too early. If so it is asked for. */
  mustGather(): boolean {
    if (!this.#owner.isUrgent() || this.#gatherMs() === 0) return false;
    this.request('picker');
    return true;
  }

  #waitMs(): number {
    const owner = this.#owner;
    if (owner.isUrgent()) return this.#gatherMs();
    this.#gatherUntilMs = undefined;
    return this.#owedUntilMs - CREDIT_MS - owner.clock.now();
  }

  /** How long the callers of a start still wait, in ms. */
  #gatherMs(): number {
    const owner = this.#owner;
    if (!owner.isGathering()) {
      this.#gatherUntilMs = undefined;
      return 0;
    }
    const nowMs = owner.clock.now();
    this.#gatherUntilMs ??= nowMs + GATHER_MS;
    return Math.max(0, this.#gatherUntilMs - nowMs);
  }

  /** What is due will not be done. */
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
