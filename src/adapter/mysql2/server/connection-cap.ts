import type { Clock, Timer } from '../../../index.js';

/** How long a server that takes no further connection is held to those it gave, in ms. */
const CROWDED_MS = 5_000;

/**
 * How many calls a server can carry: as many as it may have connections, or, since it refused one, as many as it gave. It
 * is tried again with one connection after a while; each time all that were tried were given, twice as many are.
 */
export class ConnectionCap {
  readonly #clock: Clock;
  readonly #limit: number;
  #capacity: number;
  #changed: (() => void) | undefined;
  /** Until one more connection is tried. Unset while none was refused, or more are being tried. */
  #timer: Timer | undefined;
  #isCrowded = false;

  constructor(clock: Clock, limit: number) {
    this.#capacity = limit;
    this.#clock = clock;
    this.#limit = limit;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** `changed` is called whenever `capacity` has changed. */
  watch(changed: () => void): void {
    this.#changed = changed;
  }

  get isCrowded(): boolean {
    return this.#isCrowded;
  }

  /** A connection was refused. `open`: those it gave; more may still be on their way. */
  refused(open: number): void {
    this.#isCrowded = true;
    // Not from anew at each refusal: questions beside the calls would put off the trial for ever.
    this.#timer ??= this.#clock.timer(() => {
      this.#timer = undefined;
      this.#set(this.#capacity + 1);
    }, CROWDED_MS);
    this.#set(Math.max(1, open));
  }

  /** It gave another one. `open`: all it gave. */
  opened(open: number): void {
    if (!this.#isCrowded || open < this.#capacity) return;
    this.#set(this.#timer === undefined ? 2 * open : open);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #set(capacity: number): void {
    const next = Math.min(capacity, this.#limit);
    if (next === this.#limit && this.#timer === undefined) this.#isCrowded = false;
    if (next === this.#capacity) return;
    this.#capacity = next;
    this.#changed?.();
  }
}
