import { AsyncLocalStorage } from 'node:async_hooks';
import { EvenkeelError } from '../errors.js';
import type { CallContext, ServedRequest } from '../propagation/call-context.js';
import type { Priority } from '../propagation/priority.js';
import type { Clock } from '../runtime/clock.js';
import type { SharedTimer, SharedTimers, Timed } from '../runtime/shared-timers.js';
import type { HttpResponse } from './http-requests.js';

/** What the calls of one pod have in common. */
export interface ServedCallOwner {
  readonly clock: Clock;
  readonly timers: SharedTimers;
  /** Notified when a call is over; undefined without a limit. */
  readonly admission: { ended(call: ServedCall, isAnswered: boolean, isFailure: boolean): void } | undefined;
}

/** One request while it is served: how much time it has left, its priority, and a signal for its handler. */
export class ServedCall implements ServedRequest, Timed {
  readonly priority: Priority | undefined;
  /** When the request's handler began, in ms on the pod's clock; undefined while the request waits or does not count against the limit. */
  begunMs: number | undefined;
  /** When the request arrived, in ms on the pod's clock. */
  readonly cameMs: number;
  /** The response to an HTTP request; undefined for a gRPC call. */
  response: HttpResponse | undefined = undefined;
  /** The watch on the request's body; undefined if no limit depends on the body. */
  body: { cancel(): void } | undefined;
  readonly #owner: ServedCallOwner;
  readonly #dueMs: number;
  /** Controls the signal of the request; created when the signal is first read, because most handlers do not use it. */
  #controller: AbortController | undefined;
  #timer: SharedTimer | undefined;
  #isOver = false;
  /** Whether the caller left before the response was complete. */
  #isAbandoned = false;

  /** @param deadlineMs The request's deadline, in ms from now; undefined = none. */
  constructor(owner: ServedCallOwner, deadlineMs: number | undefined, priority: Priority | undefined) {
    this.#owner = owner;
    this.cameMs = owner.clock.now();
    this.#dueMs = deadlineMs === undefined ? Number.POSITIVE_INFINITY : this.cameMs + deadlineMs;
    this.priority = priority;
  }

  get remainingMs(): number | undefined {
    return this.#dueMs === Number.POSITIVE_INFINITY ? undefined : this.#dueMs - this.#owner.clock.now();
  }

  /** Whether the request's deadline had already passed when the request arrived. */
  get cameLate(): boolean {
    return this.#dueMs <= this.cameMs;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  /** Aborts when the caller leaves before the response is complete, and at the deadline. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      const { remainingMs } = this;
      if (this.#isAbandoned) this.#controller.abort(callerGone());
      else if (remainingMs !== undefined && !this.#isOver) {
        if (remainingMs <= 0) this.timedOut();
        else this.#timer = this.#owner.timers.startAbout(remainingMs, this);
      }
    }
    return this.#controller.signal;
  }

  timedOut(): void {
    this.#controller?.abort(new EvenkeelError('EVENKEEL_DEADLINE', 'the deadline of the request has passed'));
  }

  /** The response to the request is complete, or the caller left. */
  over(isAnswered: boolean, isFailure: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.body?.cancel();
    this.#owner.admission?.ended(this, isAnswered, isFailure);
    if (isAnswered) return;
    this.#isAbandoned = true;
    this.#controller?.abort(callerGone());
  }
}

function callerGone(): DOMException {
  return new DOMException('the caller of the request is gone', 'AbortError');
}

/** Finds the request that the running code serves, by Node's AsyncLocalStorage. */
export class ServedContext implements CallContext {
  readonly #storage = new AsyncLocalStorage<ServedCall>();

  current(): ServedCall | undefined {
    return this.#storage.getStore();
  }

  run<T>(call: ServedCall, serve: () => T): T {
    return this.#storage.run(call, serve);
  }
}

/** The context of a backend that was created without `context: true`. It never finds a request. */
export const noContext: CallContext = Object.freeze({ current: () => undefined });
