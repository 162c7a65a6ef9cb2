import { AsyncResource } from 'node:async_hooks';
import type { ClientRequest } from 'node:http';
import type { Clock, Timer } from '../../index.js';
import { timeoutOf } from './node-agent.js';

/**
 * Watches a request that has no socket yet. Node keeps no track of those: it would neither tell us that the caller
 * destroyed it nor run its time-out. So as long as it waits, and no longer, the two methods concerned are ours.
 */
export class PendingRequest {
  readonly #request: ClientRequest;
  readonly #clock: Clock;
  #timer: Timer | undefined;
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
        setLimit.call(request, timeoutMs, callback);
        this.#limit(timeoutMs);
        return request;
      }),
    ];
    this.#limit(timeoutOf(request) ?? 0);
  }

  /** It has a socket, or needs none any more. */
  release(): void {
    this.#timer?.cancel();
    // The last first: objects whose last property is deleted stay fast.
    for (const restore of this.#restore.reverse()) restore();
    this.#restore = [];
  }

  #limit(timeoutMs: number): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (timeoutMs <= 0) return;
    // As Node does, once, in the caller's async context; the caller decides what follows.
    const timedOut = AsyncResource.bind(() => this.#request.emit('timeout'));
    this.#timer = this.#clock.timer(timedOut, timeoutMs);
  }
}

/** Puts a method of our own on an object; returns what takes it away again, unless somebody put another on top. */
function replace<T extends object, K extends keyof T>(object: T, name: K, method: T[K]): () => void {
  const before = Object.getOwnPropertyDescriptor(object, name);
  object[name] = method;
  return () => {
    if (object[name] !== method) return;
    if (before === undefined) delete object[name];
    else Object.defineProperty(object, name, before);
  };
}
