import { errors } from 'undici';
import type { SharedTimer, SharedTimers, Timed } from '../kit/index.js';

/** How much of a discarded response is read, in bytes, and for how long, in ms, so that its connection can be reused. */
const MAX_DISCARDED_BYTES = 65_536;
const MAX_DISCARDED_MS = 1_000;

/** The rest of a response that nobody gets. A short rest is read, so that the connection can be reused; a long or slow one is cut. */
export class DiscardedResponse implements Timed {
  readonly #cut: (reason: Error) => void;
  readonly #timer: SharedTimer;
  #left = MAX_DISCARDED_BYTES;

  /** @param cut Aborts the response. */
  constructor(timers: SharedTimers, cut: (reason: Error) => void) {
    this.#cut = cut;
    this.#timer = timers.start(MAX_DISCARDED_MS, this);
  }

  /** The response's Content-Length. A long response is cut at once. */
  declared(contentLength: unknown): void {
    if (Number(contentLength) > MAX_DISCARDED_BYTES) this.timedOut();
  }

  /** This many more bytes have arrived. */
  add(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) this.timedOut();
  }

  /** The response has ended, or broke off. */
  over(): void {
    this.#timer.cancel();
  }

  timedOut(): void {
    this.#cut(new errors.RequestAbortedError('the response was given up for that of another pod'));
  }
}
