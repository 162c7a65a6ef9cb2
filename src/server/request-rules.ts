import { isEvenkeelError } from '../errors.js';
import { isPriority, type Priority } from '../propagation/priority.js';
import { shorter } from '../propagation/propagated.js';
import type { HttpRefusal } from './http-refusal.js';
import type { IncomingRequest, ResolvedBackendOptions } from './options.js';
import { resultOf } from './result-of.js';

/** Applies a backend's options to a request. If a function in the options throws, its result counts as undefined. */
export class RequestRules {
  readonly #options: ResolvedBackendOptions;

  constructor(options: ResolvedBackendOptions) {
    this.#options = options;
  }

  /** The deadline of a request, in ms from now: the shorter of the caller's and the pod's own. */
  deadlineMs(callersMs: number | undefined): number | undefined {
    return shorter(callersMs, this.#options.deadlineMs);
  }

  /** The priority of a request: what the application's function says, else what a trusted caller says. */
  priority(request: IncomingRequest, callers: unknown): Priority | undefined {
    const { priority, trust } = this.#options;
    const own = resultOf(priority, request);
    if (isPriority(own)) return own;
    return isPriority(callers) && resultOf(trust, request) === true ? callers : undefined;
  }

  isUnlimited(request: IncomingRequest): boolean {
    return resultOf(this.#options.unlimited, request) === true;
  }

  /**
   * What the caller of a request that was refused with `error` is told. `retryAfterMs` is undefined if the caller's deadline has passed.
   */
  refusal(error: unknown): HttpRefusal {
    const isOverload = isEvenkeelError(error, 'EVENKEEL_OVERLOAD') || isEvenkeelError(error, 'EVENKEEL_QUEUE_FULL');
    return isOverload ? { text: 'overloaded', retryAfterMs: this.#options.retryAfterMs } : late;
  }
}

const late: HttpRefusal = { text: 'the deadline is over', retryAfterMs: undefined };
