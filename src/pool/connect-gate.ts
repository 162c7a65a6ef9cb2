import type { Clock, Timer } from '../runtime/clock.js';

/** An attempt to connect, which waits at the gate for its turn. */
export interface GateVisitor {
  /** The attempt may start to connect now. It must call the gate's `left` once, and must not throw. */
  begin(): void;
}

/**
 * An endpoint with at most this many consecutive failures may just be starting: it does not queue behind endpoints that are
 * gone.
 */
const FEW_FAILURES = 3;

/**
 * Limits concurrent connection attempts; the others wait their turn, first come first served. Attempts to endpoints that failed
 * recently wait behind all others and get at most half of the slots: a hundred endpoints that hang until their timeout must not
 * keep a new pod waiting. A budget limits them too, and every other turn is for those that failed only a few times.
 */
export class ConnectGate {
  readonly #limit: number;
  readonly #limitAgain: number;
  readonly #clock: Clock;
  readonly #budget: DialBudget = new DialBudget();
  readonly #waiting = new Set<GateVisitor>();
  readonly #waitingAgain = new Set<GateVisitor>();
  readonly #waitingLong = new Set<GateVisitor>();
  readonly #runningAgain = new Set<GateVisitor>();
  #running = 0;
  #admitting = false;
  /** Whether the last turn for endpoints that failed recently went to one that had failed often. */
  #wasLong = false;
  /** The timer that runs while an attempt waits for the budget of dials. */
  #timer: Timer | undefined;

  constructor(limit: number, clock: Clock) {
    this.#limit = limit;
    this.#limitAgain = Math.max(1, Math.floor(limit / 2));
    this.#clock = clock;
  }

  /**
   * Calls the visitor's `begin` as soon as there is a free slot, possibly synchronously. @param failures Recent consecutive failures of the
   * visitor's endpoint.
   */
  enter(visitor: GateVisitor, failures: number): void {
    const waiting = failures === 0 ? this.#waiting : failures <= FEW_FAILURES ? this.#waitingAgain : this.#waitingLong;
    waiting.add(visitor);
    if (!this.#admitting) this.#admit();
  }

  /** The visitor stops waiting at the gate. Returns false if its attempt has already started. */
  giveUp(visitor: GateVisitor): boolean {
    const waited =
      this.#waiting.delete(visitor) || this.#waitingAgain.delete(visitor) || this.#waitingLong.delete(visitor);
    this.#stopIdleTimer();
    return waited;
  }

  /** A started attempt is over. @param connected Whether the attempt got a connection. */
  left(visitor: GateVisitor, connected: boolean): void {
    this.#running--;
    if (this.#runningAgain.delete(visitor) && connected) this.#budget.giveBack();
    this.#admitLater();
  }

  /** Admits waiting attempts at the end of the turn: otherwise calling off thousands of attempts would start each of them first. */
  #admitLater(): void {
    if (this.#admitting) return;
    this.#admitting = true;
    this.#clock.defer(() => {
      this.#admitting = false;
      this.#admit();
    });
  }

  #admit(): void {
    while (this.#running < this.#limit) {
      const [visitor] = this.#waiting;
      if (visitor !== undefined) {
        this.#waiting.delete(visitor);
        this.#begin(visitor);
      } else if (!this.#admitAgain()) return;
    }
  }

  /** Starts an attempt to an endpoint that failed recently. Returns false if none waits, or there is no room or no budget for it. */
  #admitAgain(): boolean {
    if (this.#waitingAgain.size + this.#waitingLong.size === 0) return false;
    if (this.#runningAgain.size >= this.#limitAgain) return false;
    if (!this.#budget.take(this.#clock.now())) {
      this.#timer ??= this.#clock.timer(() => {
        this.#timer = undefined;
        this.#admit();
      }, this.#budget.waitMs);
      return false;
    }
    this.#wasLong = this.#waitingAgain.size === 0 || (!this.#wasLong && this.#waitingLong.size > 0);
    const waiting = this.#wasLong ? this.#waitingLong : this.#waitingAgain;
    const [again] = waiting;
    waiting.delete(again as GateVisitor);
    this.#stopIdleTimer();
    this.#runningAgain.add(again as GateVisitor);
    this.#begin(again as GateVisitor);
    return true;
  }

  #begin(visitor: GateVisitor): void {
    this.#running++;
    visitor.begin();
  }

  #stopIdleTimer(): void {
    if (this.#waitingAgain.size + this.#waitingLong.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}

/** Dials per second to endpoints that failed recently. */
const PER_SECOND = 50;
/** The most dials the budget can pay for at once: what it gains in a second. */
const LIMIT = PER_SECOND;

/**
 * Limits dials to endpoints that do not answer. Each endpoint has its own pauses, but thousands of them (a partition, or a
 * Service whose pods are gone) would together cost a core and a storm of SYNs. A token bucket; a successful dial is refunded,
 * so that endpoints that return are connected without delay.
 */
class DialBudget {
  #tokens = LIMIT;
  #updatedMs = Number.NEGATIVE_INFINITY;

  /** Pays for a dial, if the budget allows. Returns whether it did. */
  take(nowMs: number): boolean {
    this.#tokens = Math.min(LIMIT, this.#tokens + Math.max(0, nowMs - this.#updatedMs) * (PER_SECOND / 1_000));
    this.#updatedMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** A dial that was paid for succeeded, and is refunded. */
  giveBack(): void {
    this.#tokens = Math.min(LIMIT, this.#tokens + 1);
  }

  /** Time until the budget can pay for the next dial, in whole ms, as of the last `take`. */
  get waitMs(): number {
    return Math.max(1, Math.ceil((1 - this.#tokens) * (1_000 / PER_SECOND)));
  }
}
