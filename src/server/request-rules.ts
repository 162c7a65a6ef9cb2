import { isEvenkeelError } from '../errors.js';
import { isPriority, type Priority } from '../runtime/priority.js';
import { shorter } from '../runtime/propagated.js';
import type { Refusal } from './http-refusal.js';
import type { IncomingRequest, ResolvedPodOptions } from './options.js';

/** What the options of a pod say about a request. What a function of the application throws, it has not said. */
export class RequestRules {
  readonly #options: ResolvedPodOptions;

  constructor(options: ResolvedPodOptions) {
    this.#options = options;
  }

  /** The caller's deadline, shortened to that of the pod, in ms. */
  deadlineMs(given: number | undefined): number | undefined {
    return shorter(given, this.#options.deadlineMs);
  }

  /** The application's own word, else that of a caller that is trusted. */
  priority(request: IncomingRequest, given: unknown): Priority | undefined {
    const { priority, trust } = this.#options;
    const own = called(priority, request);
    if (isPriority(own)) return own;
    return isPriority(given) && called(trust, request) === true ? given : undefined;
  }

  isUnlimited(request: IncomingRequest): boolean {
    return called(this.#options.unlimited, request) === true;
  }

  /** What a caller hears that is turned away because of `error`; undefined = its deadline is over. */
  refusal(error: unknown): Refusal {
    const isOverload = isEvenkeelError(error, 'EVENKEEL_OVERLOAD') || isEvenkeelError(error, 'EVENKEEL_QUEUE_FULL');
    return isOverload ? { text: 'overloaded', retryAfterMs: this.#options.retryAfterMs } : late;
  }
}

const late: Refusal = { text: 'the deadline is over', retryAfterMs: undefined };

function called<T>(asked: ((request: IncomingRequest) => T) | undefined, request: IncomingRequest): T | undefined {
  try {
    return asked?.(request);
  } catch {
    return undefined;
  }
}
