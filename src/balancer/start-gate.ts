import { type EvenkeelError, isEvenkeelError } from '../errors.js';
import { offAbort, onAbort } from '../runtime/abort-listeners.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

/** Holds the callers of `ready()` until the first endpoint set is known after a start. */
export class StartGate {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #late: () => EvenkeelError;
  readonly #openedAtMs: number;
  readonly #waiters = new Set<Waiter>();
  #state: 'waiting' | 'open' | EvenkeelError = 'waiting';

  /** @param late Creates the error for callers that got no set within `timeoutMs`, counted from this constructor on. */
  constructor(clock: Clock, timeoutMs: number, late: () => EvenkeelError) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#late = late;
    this.#openedAtMs = clock.now();
  }

  async wait(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#state === 'open') return;
    if (isEvenkeelError(this.#state)) throw this.#state;
    let timer: Timer | undefined;
    let aborted: (() => void) | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        const waiter = { resolve, reject };
        this.#waiters.add(waiter);
        aborted = () => {
          this.#waiters.delete(waiter);
          reject(signal?.reason);
        };
        onAbort(signal, aborted);
        const late = (): void => {
          this.#waiters.delete(waiter);
          reject(this.#late());
        };
        timer = deadline(this.#clock, late, Math.max(0, this.#openedAtMs + this.#timeoutMs - this.#clock.now()));
        timer.ref();
      });
    } finally {
      timer?.cancel();
      if (aborted !== undefined) offAbort(signal, aborted);
    }
  }

  /** The first set is known: everybody who waits goes on, also after an earlier `fail`. */
  open(): void {
    if (this.#state === 'open') return;
    this.#state = 'open';
    for (const waiter of this.#waiters) waiter.resolve();
    this.#waiters.clear();
  }

  /** There is no first set, and as far as known there will be none: callers that wait for it get this error, and later callers too. */
  fail(error: EvenkeelError): void {
    this.#state = error;
    for (const waiter of this.#waiters) waiter.reject(error);
    this.#waiters.clear();
  }
}
