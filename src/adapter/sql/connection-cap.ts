import type { Clock, Timer } from '../../index.js';

/** How long a server that refused a connection gets no more calls than it has connections, in ms. */
const CAPPED_MS = 5_000;

/**
 * How many calls a database server can take at once: as many as its limit of connections or, once it refused one, as many as are open.
 * After a while one more connection is tried; if it opens, twice as many are tried, and so on up to the limit.
 *
 * A database counts its connections, so a success proves nothing about the next attempt. An HTTP pod that refuses connections has a full
 * backlog, and has room for all once it accepts one: `Pod` (adapter/http) lifts its limit then.
 */
export class ConnectionCap {
  readonly #clock: Clock;
  readonly #limit: number;
  readonly #changed: (capacity: number) => void;
  #capacity: number;
  /** Runs until the server is tried with one more connection. Unset while no connection has been refused, or while more are being tried. */
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

  /** Lets the server take no calls until `resume`, because the one connection it needs may not open. */
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

  /** Lowers the cap, because the server refused a connection. `open` is how many are open; others may still be connecting. */
  refused(open: number): void {
    this.#isCapped = true;
    // A refusal does not restart the timer: pings and checks, which open connections too, would put off the next attempt forever.
    this.#timer ??= this.#clock.timer(() => {
      this.#timer = undefined;
      this.#set(this.#capacity + 1);
    }, CAPPED_MS);
    this.#set(Math.max(1, open));
  }

  /** Raises the cap, because a connection was opened. `open` is how many are open now, including this one. */
  opened(open: number): void {
    if (!this.#isCapped || open < this.#capacity) return;
    this.#set(this.#timer === undefined ? 2 * open : open);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #set(capacity: number): void {
    const capped = Math.min(capacity, this.#limit);
    if (capped === this.#limit && this.#timer === undefined) this.#isCapped = false;
    if (capped === this.#capacity) return;
    this.#capacity = capped;
    this.#changed(this.capacity);
  }
}
