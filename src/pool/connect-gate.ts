import type { Clock } from '../runtime/clock.js';

/** What the gate lets in. */
export interface GateVisitor {
  /** There is room: begins, now. Owes the gate one `left`. Must not throw. */
  begin(): void;
}

/**
 * Lets a bounded number of connection attempts run at once; the others wait their turn, first come first served.
 * Attempts on endpoints that failed lately wait behind all others and get at most half of the places: a hundred
 * endpoints that hang until their time-out must not keep a new pod waiting.
 */
export class ConnectGate {
  readonly #limit: number;
  readonly #limitAgain: number;
  readonly #clock: Clock;
  readonly #waiting = new Set<GateVisitor>();
  readonly #waitingAgain = new Set<GateVisitor>();
  readonly #runningAgain = new Set<GateVisitor>();
  #running = 0;
  #admitting = false;

  constructor(limit: number, clock: Clock) {
    this.#limit = limit;
    this.#limitAgain = Math.max(1, Math.floor(limit / 2));
    this.#clock = clock;
  }

  /** Calls `begin` as soon as there is room, perhaps at once. @param again Whether its endpoint failed lately. */
  enter(visitor: GateVisitor, again: boolean): void {
    (again ? this.#waitingAgain : this.#waiting).add(visitor);
    if (!this.#admitting) this.#admit();
  }

  /** Does not want in any more. False when it is in already. */
  giveUp(visitor: GateVisitor): boolean {
    return this.#waiting.delete(visitor) || this.#waitingAgain.delete(visitor);
  }

  /** One that had begun is over. */
  left(visitor: GateVisitor): void {
    this.#running--;
    this.#runningAgain.delete(visitor);
    if (this.#admitting) return;
    // At the end of the turn: whoever calls off thousands of attempts would else begin each before he gets to it.
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
        continue;
      }
      const [again] = this.#waitingAgain;
      if (again === undefined || this.#runningAgain.size >= this.#limitAgain) return;
      this.#waitingAgain.delete(again);
      this.#runningAgain.add(again);
      this.#begin(again);
    }
  }

  #begin(visitor: GateVisitor): void {
    this.#running++;
    visitor.begin();
  }
}
