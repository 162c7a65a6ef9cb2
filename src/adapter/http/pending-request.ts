import { AsyncResource } from 'node:async_hooks';
import type { ClientRequest } from 'node:http';
import type { Clock, Timer } from '../../index.js';
import { replace, setTimeLimit, timeLimitOf, withoutTimeLimit } from './internals.js';

/** The longest time limit of a request, in ms; Node shortens a longer limit to this. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Watches a request that has no socket yet. Node does not track such requests: it neither reports that the caller destroyed the request nor
 * runs its timeout. So the request's `destroy` and `setTimeout` are replaced while it waits.
 */
export class PendingRequest {
  readonly #request: ClientRequest;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #timeoutMs = 0;
  /** Whether the caller has been notified that its request timed out. */
  #timedOut = false;
  #restore: (() => void)[];

  /** @param destroyed Called when the caller gives the request up, also by `abort()` or by its signal. */
  constructor(request: ClientRequest, clock: Clock, destroyed: () => void) {
    this.#request = request;
    this.#clock = clock;
    const { destroy, setTimeout: setLimit } = request;
    this.#restore = [
      replace(request, 'destroy', (error) => {
        destroy.call(request, error);
        destroyed();
        return request;
      }),
      replace(request, 'setTimeout', (timeoutMs, callback) => {
        // Node checks and keeps the time limit, but adds no listener to the socket that the request will get: `release` decides that.
        withoutTimeLimit(request, () => setLimit.call(request, timeoutMs, callback));
        this.#limit(timeoutMs);
        return request;
      }),
    ];
    this.#limit(timeLimitOf(request));
  }

  /** The time limit of the request from now on, in ms; 0 = none. */
  get timeoutMs(): number {
    return this.#timedOut ? 0 : this.#timeoutMs;
  }

  /** Stops watching, because the request has a socket or no longer needs one, and puts back the methods that were replaced. */
  release(): void {
    this.#timer?.cancel();
    // The methods are put back in reverse order: objects stay fast if the property added last is deleted first.
    for (const restore of this.#restore.reverse()) restore();
    this.#restore = [];
    setTimeLimit(this.#request, this.#timeoutMs, this.#timedOut);
  }

  #limit(timeoutMs: number): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timeoutMs = Math.min(timeoutMs, MAX_TIMEOUT_MS);
    if (timeoutMs <= 0 || this.#timedOut) return;
    // The timeout runs in the caller's async context, and the caller decides what to do.
    const timedOut = AsyncResource.bind(() => {
      this.#timedOut = true;
      this.#request.emit('timeout');
    });
    this.#timer = this.#clock.timer(timedOut, this.#timeoutMs);
  }
}
