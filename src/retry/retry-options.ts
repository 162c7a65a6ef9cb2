import { checkNumber, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { functionOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { type RetryBudgetOptions, resolveRetryBudget } from './budget.js';
import type { RetryCandidate } from './ended-attempt.js';

/** Options of `retry`: which attempts are retried on another endpoint, and how many. An invalid option throws EVENKEEL_OPTION. */
export interface RetryOptions {
  /** How many attempts a call may have, including the first and hedges; 1 = no retries. @defaultValue 3 */
  readonly maxAttempts?: number | undefined;
  /** Limits retries over all calls of a balancer. @defaultValue a fifth of the calls, and 10 per second */
  readonly budget?: RetryBudgetOptions | undefined;
  /**
   * For HTTP: response statuses, 400 to 599, after which a request is retried on another endpoint, such as `[502, 503, 504]`. Applies only
   * to requests that may be sent twice. If no further attempt is possible, the caller gets the response. @defaultValue none
   */
  readonly statuses?: readonly number[] | undefined;
  /**
   * For HTTP: the methods of requests that may be sent twice. This replaces the whole list: to add POST, list GET and the others too.
   * Listing POST states that the servers process a repeated POST only once, for example by an idempotency key. @defaultValue GET, HEAD,
   * OPTIONS, TRACE, PUT, DELETE
   */
  readonly methods?: readonly string[] | undefined;
  /**
   * Decides for each attempt that can be retried whether it is, in place of the rules; `usual` is what they would decide. For HTTP, it also
   * decides about responses with a status of 400 or above. If it throws, or returns anything but true or false, `usual` holds.
   * @defaultValue the rules decide @see docs/guide/retries.md#a-rule-of-your-own
   */
  readonly when?: ((attempt: RetryCandidate) => boolean) | undefined;
}

/**
 * The options of `retry`, with their defaults and bounds. The default `methods` are those of requests that may safely run twice. Source:
 * RFC 9110, 9.2.2.
 */
export const retryTable: OptionTable<ResolvedRetryOptions> = optionTable('retry', {
  maxAttempts: numberOption(3, { min: 1, max: 100, integer: true }),
  budget: { default: resolveRetryBudget(), check: (_name, value) => resolveRetryBudget(value as RetryBudgetOptions) },
  statuses: { default: Object.freeze<number[]>([]), check: checkStatuses },
  methods: { default: Object.freeze(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']), check: checkMethods },
  when: functionOption<NonNullable<RetryOptions['when']>>(),
});

/** The options of `retry` with every default filled in. */
export type ResolvedRetryOptions = Omit<Complete<RetryOptions>, 'budget' | 'when'> & {
  readonly budget: Complete<RetryBudgetOptions>;
  readonly when: RetryOptions['when'];
};

/** Fills in the defaults of the options of `retry` and checks them. Throws EVENKEEL_OPTION. */
export const resolveRetryOptions = (options?: RetryOptions): ResolvedRetryOptions => retryTable.resolve(options);

function checkStatuses(name: string, statuses: unknown): readonly number[] {
  if (!Array.isArray(statuses)) throw optionError(name, 'a list of statuses', statuses);
  return statuses.map((status, index) =>
    checkNumber(`${name}[${index}]`, status ?? Number.NaN, 0, { min: 400, max: 599, integer: true }),
  );
}

/** Matches an HTTP method, which is a token (RFC 9110, 5.6.2). Case matters, and known methods are upper case. */
const METHOD = /^[A-Z!#$%&'*+.^_`|~0-9-]+$/;

function checkMethods(name: string, methods: unknown): readonly string[] {
  if (!Array.isArray(methods)) throw optionError(name, 'a list of methods', methods);
  for (const [index, method] of methods.entries()) {
    if (typeof method !== 'string' || !METHOD.test(method)) {
      throw optionError(`${name}[${index}]`, 'a method in upper case', method);
    }
  }
  return [...methods];
}
