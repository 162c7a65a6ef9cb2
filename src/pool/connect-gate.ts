import type { Clock, Timer } from '../runtime/clock.js';
import { DialBudget } from './dial-budget.js';

/** What the gate lets in. */
export interface GateVisitor {
  /** There is room: begins, now. Owes the gate one `left`. Must not throw. */
  begin(): void;
}

/** An endpoint that failed no more often than this in a row may just be starting: it does not queue behind those that are gone. */
const FEW_FAILURES = 3;

/**
 * Lets a bounded number of connection attempts run at once; the others wait their turn, first come first served.
 * Attempts on endpoints that failed lately wait behind all others and get at most half of the places: a hundred
 * endpoints that hang until their time-out must not keep a new pod waiting. They are also paid for from a budget, and every
 * other turn is for those that failed only a few times.
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
  /** Whether the last turn of those that failed was one of the many that failed often. */
  #wasLong = false;
  /** Runs while somebody waits for the budget. */
  #timer: Timer | undefined;

  constructor(limit: number, clock: Clock) {
    this.#limit = limit;
    this.#limitAgain = Math.max(1, Math.floor(limit / 2));
    this.#clock = clock;
  }

  /** Calls `begin` as soon as there is room, perhaps at once. @param failures How often its endpoint failed lately, in a row. */
  enter(visitor: GateVisitor, failures: number): void {
    const waiting = failures === 0 ? this.#waiting : failures <= FEW_FAILURES ? this.#waitingAgain : this.#waitingLong;
    waiting.add(visitor);
    if (!this.#admitting) this.#admit();
  }

  /** Does not want in any more. False when it is in already. */
  giveUp(visitor: GateVisitor): boolean {
    const waited =
      this.#waiting.delete(visitor) || this.#waitingAgain.delete(visitor) || this.#waitingLong.delete(visitor);
    this.#stopIdleTimer();
    return waited;
  }

  /** One that had begun is over. @param connected Whether it brought a connection. */
  left(visitor: GateVisitor, connected: boolean): void {
    this.#running--;
    if (this.#runningAgain.delete(visitor) && connected) this.#budget.giveBack();
    this.#admitLater();
  }

  /** At the end of the turn: whoever calls off thousands of attempts would else begin each before he gets to it. */
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

  /** One of those that failed lately; false if there is none, no place, or nothing to pay with. */
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
