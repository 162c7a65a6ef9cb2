import type { Clock, Timer } from '../runtime/clock.js';
import { TokenBucket } from '../runtime/token-bucket.js';

/** An attempt to connect that waits at the gate for its turn. */
export interface GateVisitor {
  /** The attempt may begin to connect now. It must call `left` of the gate once, and must not throw. */
  begin(): void;
}

/** An endpoint with at most this many failures in a row may just be starting, so it does not queue behind endpoints that are gone. */
const FEW_FAILURES = 3;
/**
 * How many attempts per second are made to endpoints that failed recently. Each endpoint has pauses of its own, but thousands of them (a
 * partition, or a Service whose pods are gone) would together cost a core and a storm of SYNs.
 */
const AGAIN_PER_SECOND = 50;

/**
 * Limits how many attempts to connect run at once; the others wait, first come first served. Attempts to endpoints that failed recently
 * wait behind all others and get at most half of the slots, because a hundred endpoints that hang until their timeout must not keep a new
 * pod waiting. A budget limits them too, and every other turn is for endpoints that failed only a few times.
 */
export class ConnectGate {
  readonly #limit: number;
  readonly #limitAgain: number;
  readonly #clock: Clock;
  /** Pays for attempts to endpoints that failed recently. One that succeeds is refunded, so that endpoints that return are not delayed. */
  readonly #budget: TokenBucket = new TokenBucket(AGAIN_PER_SECOND, AGAIN_PER_SECOND);
  readonly #waiting = new Set<GateVisitor>();
  readonly #waitingAgain = new Set<GateVisitor>();
  readonly #waitingLong = new Set<GateVisitor>();
  readonly #runningAgain = new Set<GateVisitor>();
  #running = 0;
  #admitting = false;
  /** Whether the last attempt to an endpoint that failed recently was to one that had failed often. */
  #wasLong = false;
  /** Runs while an attempt waits until the budget can pay for it. */
  #timer: Timer | undefined;

  constructor(limit: number, clock: Clock) {
    this.#limit = limit;
    this.#limitAgain = Math.max(1, Math.floor(limit / 2));
    this.#clock = clock;
  }

  /**
   * Calls the visitor's `begin` as soon as there is a free slot, possibly synchronously. @param failures How many attempts in a row failed
   * on the visitor's endpoint recently.
   */
  enter(visitor: GateVisitor, failures: number): void {
    const waiting = failures === 0 ? this.#waiting : failures <= FEW_FAILURES ? this.#waitingAgain : this.#waitingLong;
    waiting.add(visitor);
    if (!this.#admitting) this.#admit();
  }

  /** Makes the visitor stop waiting at the gate. Returns false if its attempt has already begun. */
  giveUp(visitor: GateVisitor): boolean {
    const waited =
      this.#waiting.delete(visitor) || this.#waitingAgain.delete(visitor) || this.#waitingLong.delete(visitor);
    this.#stopIdleTimer();
    return waited;
  }

  /** An attempt that had begun is over. @param connected Whether the attempt got a connection. */
  left(visitor: GateVisitor, connected: boolean): void {
    this.#running--;
    if (this.#runningAgain.delete(visitor) && connected) this.#budget.giveBack();
    this.#admitLater();
  }

  /**
   * Admits waiting attempts at the end of this turn. If they were admitted at once, calling off thousands of attempts would begin each of
   * them first.
   */
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

  /** Begins an attempt to an endpoint that failed recently. Returns false if none waits, or if there is no slot or budget for it. */
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
