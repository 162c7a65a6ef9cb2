import type { Clock, Timer } from '../../index.js';

/** How long a server that opens no further connection is held to those it has, in ms. */
const CAPPED_MS = 5_000;

/**
 * How many calls a server can take: as many as it may have connections or, once it refused one, as many as are open. After a
 * while one more is tried; if that can be opened, twice as many are tried, and so on up to the limit.
 *
 * A database counts its connections, so one that was opened proves nothing about the next. A pod that speaks HTTP has only a full
 * backlog, and room for all once it accepts one: `PodLink` lifts its limit then.
 */
export class ConnectionCap {
  readonly #clock: Clock;
  readonly #limit: number;
  readonly #changed: (capacity: number) => void;
  #capacity: number;
  /** Runs until one more connection is tried. Unset while none has been refused, or while more are being tried. */
  #timer: Timer | undefined;
  #isCapped = false;
  #isHeld = false;

  /** @param changed Called whenever `capacity` may have changed. */
  constructor(clock: Clock, limit: number, changed: (capacity: number) => void) {
    this.#capacity = limit;
    this.#clock = clock;
    this.#limit = limit;
    this.#changed = changed;
  }

  get capacity(): number {
    return this.#isHeld ? 0 : this.#capacity;
  }

  /** The server takes no calls until `resume`, because it may not be able to open the connection that is needed. */
  hold(): void {
    this.#isHeld = true;
    this.#changed(0);
  }

  resume(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#changed(this.#capacity);
  }

  get isCapped(): boolean {
    return this.#isCapped;
  }

  /** The server refused a connection. `open` is how many are open; others may still be connecting. */
  refused(open: number): void {
    this.#isCapped = true;
    // A refusal does not restart the timer: pings and checks would put off the next try forever.
    this.#timer ??= this.#clock.timer(() => {
      this.#timer = undefined;
      this.#set(this.#capacity + 1);
    }, CAPPED_MS);
    this.#set(Math.max(1, open));
  }

  /** A connection was opened; `open` is how many are open now, this one included. */
  opened(open: number): void {
    if (!this.#isCapped || open < this.#capacity) return;
    this.#set(this.#timer === undefined ? 2 * open : open);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #set(capacity: number): void {
    const next = Math.min(capacity, this.#limit);
    if (next === this.#limit && this.#timer === undefined) this.#isCapped = false;
    if (next === this.#capacity) return;
    this.#capacity = next;
    this.#changed(this.capacity);
  }
}
