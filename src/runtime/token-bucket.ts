/** A token bucket: lets `size` events happen at once, and `perSecond` events per second in the long run. It starts full. */
export class TokenBucket {
  readonly #size: number;
  readonly #perMs: number;
  #tokens: number;
  #updatedMs = Number.NEGATIVE_INFINITY;

  constructor(size: number, perSecond: number) {
    this.#size = size;
    this.#perMs = perSecond / 1_000;
    this.#tokens = size;
  }

  /** Takes the token for one event. Returns false if there is none. */
  take(nowMs: number): boolean {
    this.#tokens = Math.min(this.#size, this.#tokens + Math.max(0, nowMs - this.#updatedMs) * this.#perMs);
    this.#updatedMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** Puts back the token of an event that shall not count. */
  giveBack(): void {
    this.#tokens = Math.min(this.#size, this.#tokens + 1);
  }

  /** How long it takes until there is a token, in whole ms, as of the last `take`. */
  get waitMs(): number {
    return Math.max(1, Math.ceil((1 - this.#tokens) / this.#perMs));
  }
}
