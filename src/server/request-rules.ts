import { isEvenkeelError } from '../errors.js';
import { isPriority, type Priority } from '../propagation/priority.js';
import { shorter } from '../propagation/propagated.js';
import type { HttpRefusal } from './http-refusal.js';
import type { IncomingRequest, ResolvedBackendOptions } from './options.js';

/** Applies a pod's options to a request. If a function of the application throws, its result counts as undefined. */
export class RequestRules {
  readonly #options: ResolvedBackendOptions;

  constructor(options: ResolvedBackendOptions) {
    this.#options = options;
  }

  /** The deadline of a request in ms: the caller's, shortened to the pod's own. */
  deadlineMs(callersMs: number | undefined): number | undefined {
    return shorter(callersMs, this.#options.deadlineMs);
  }

  /** The priority of a request: the application's choice, else that of a trusted caller. */
  priority(request: IncomingRequest, callers: unknown): Priority | undefined {
    const { priority, trust } = this.#options;
    const own = resultOf(priority, request);
    if (isPriority(own)) return own;
    return isPriority(callers) && resultOf(trust, request) === true ? callers : undefined;
  }

  isUnlimited(request: IncomingRequest): boolean {
    return resultOf(this.#options.unlimited, request) === true;
  }

  /** What a caller is told that is refused with `error`; `retryAfterMs` is undefined if its deadline is over. */
  refusal(error: unknown): HttpRefusal {
    const isOverload = isEvenkeelError(error, 'EVENKEEL_OVERLOAD') || isEvenkeelError(error, 'EVENKEEL_QUEUE_FULL');
    return isOverload ? { text: 'overloaded', retryAfterMs: this.#options.retryAfterMs } : late;
  }
}

const late: HttpRefusal = { text: 'the deadline is over', retryAfterMs: undefined };

function resultOf<T>(callback: ((request: IncomingRequest) => T) | undefined, request: IncomingRequest): T | undefined {
  try {
    return callback?.(request);
  } catch {
    return undefined;
  }
}
