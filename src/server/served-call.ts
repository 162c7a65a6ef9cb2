import { EvenkeelError } from '../errors.js';
import type { ServedRequest } from '../propagation/call-context.js';
import type { Priority } from '../propagation/priority.js';
import type { Clock } from '../runtime/clock.js';
import type { SharedTimer, SharedTimers, Timed } from '../runtime/shared-timers.js';

/** What the requests of a pod share. */
export interface ServedCallOwner {
  readonly clock: Clock;
  readonly timers: SharedTimers;
  /** Notified when a call of the pod is over. */
  readonly admission: { left(call: ServedCall, isAnswered: boolean, isFailure: boolean): void } | undefined;
}

/** One request while it is served: what is left of its time, its priority, and a signal for its handler. */
export class ServedCall implements ServedRequest, Timed {
  readonly priority: Priority | undefined;
  /** When the request's handler began, on the pod's clock; undefined while the request waits. */
  begunMs: number | undefined;
  /** When the request arrived, on the pod's clock. */
  readonly cameMs: number;
  /** The watch on the request's body, while the request's turn depends on that. */
  body: { cancel(): void } | undefined;
  readonly #owner: ServedCallOwner;
  readonly #dueMs: number;
  /** The controller of the request's signal, created on first access: most handlers do not use the signal. */
  #controller: AbortController | undefined;
  #timer: SharedTimer | undefined;
  #isOver = false;
  /** Whether the caller left before the request was answered. */
  #isAbandoned = false;

  /** @param deadlineMs The caller's deadline, in ms from now; undefined = none. */
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
    if (this.begunMs !== undefined) this.#owner.admission?.left(this, isAnswered, isFailure);
    if (isAnswered) return;
    this.#isAbandoned = true;
    this.#controller?.abort(callerGone());
  }
}

function callerGone(): DOMException {
  return new DOMException('the caller of the request is gone', 'AbortError');
}
