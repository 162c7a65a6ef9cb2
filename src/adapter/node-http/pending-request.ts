import { AsyncResource } from 'node:async_hooks';
import type { ClientRequest } from 'node:http';
import type { Clock, Timer } from '../../index.js';
import { keepTimeout, limitOnSocket, replace, timeoutOf } from './node-agent.js';

/**
 * Watches a request that has no socket yet. Node does not track those: it neither reports that the caller destroyed the request nor runs
 * its timeout. So the two methods concerned are replaced while it waits.
 */
export class PendingRequest {
  readonly #request: ClientRequest;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #timeoutMs = 0;
  /** The caller has been told so. */
  #timedOut = false;
  #restore: (() => void)[];

  /** `destroyed`: the caller gave up, also by `abort()` or its signal. */
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
        keepTimeout(request, setLimit, timeoutMs, callback);
        this.#limit(timeoutMs);
        return request;
      }),
    ];
    this.#limit(timeoutOf(request) ?? 0);
  }

  /** The request's time limit from now on, in ms; 0 = none. */
  get timeoutMs(): number {
    return this.#timedOut ? 0 : this.#timeoutMs;
  }

  /** It has a socket, or no longer needs one. */
  release(): void {
    this.#timer?.cancel();
    // In reverse order: objects stay fast if the last property is deleted first.
    for (const restore of this.#restore.reverse()) restore();
    this.#restore = [];
    limitOnSocket(this.#request, this.#timedOut ? undefined : this.#timeoutMs);
  }

  #limit(timeoutMs: number): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timeoutMs = timeoutMs;
    if (timeoutMs <= 0 || this.#timedOut) return;
    // Like Node: once, in the caller's async context; the caller decides what to do.
    const timedOut = AsyncResource.bind(() => {
      this.#timedOut = true;
      this.#request.emit('timeout');
    });
    this.#timer = this.#clock.timer(timedOut, timeoutMs);
  }
}
