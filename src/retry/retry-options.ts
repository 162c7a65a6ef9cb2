import { checkNumber, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { functionOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { type RetryBudgetOptions, resolveRetryBudget } from './budget.js';
import type { RetryCandidate } from './ended-attempt.js';

/** Which attempts are retried on another endpoint. */
export interface RetryOptions {
  /** Maximum attempts per call, including the first and hedges; 1 = no retries. @defaultValue 3 */
  readonly maxAttempts?: number | undefined;
  /** Limits retries over all calls of a balancer. @defaultValue a fifth of the calls, and 10 per second */
  readonly budget?: RetryBudgetOptions | undefined;
  /**
   * HTTP: response statuses, 400 to 599, that are retried on another endpoint, such as `[502, 503, 504]`. Only for requests
   * that may be sent twice. If no further attempt is possible the caller gets the response.
   * @defaultValue none
   */
  readonly statuses?: readonly number[] | undefined;
  /**
   * HTTP: methods of requests that may be sent twice. Replaces the list: to add POST, list GET and the others too. Listing POST states
   * that the servers process a repeated POST only once, for example with an idempotency key.
   * @defaultValue GET, HEAD, OPTIONS, TRACE, PUT, DELETE
   */
  readonly methods?: readonly string[] | undefined;
  /**
   * Decides about each attempt that can be retried, instead of the rules; `usual` is what they would do. HTTP: also about
   * responses with a status of 400 or above. If it throws, or returns anything but true or false, `usual` holds.
   * @defaultValue the rules
   * @see docs/guide/retries.md#a-rule-of-your-own
   */
  readonly when?: ((attempt: RetryCandidate) => boolean) | undefined;
}

/** The options of `retry` with defaults and bounds; `methods` are those of requests that may safely run twice. Source: RFC 9110, 9.2.2. */
export const retryTable: OptionTable<ResolvedRetryOptions> = optionTable('retry', {
  maxAttempts: numberOption(3, { min: 1, max: 100, integer: true }),
  budget: { default: resolveRetryBudget(), check: (_name, value) => resolveRetryBudget(value as RetryBudgetOptions) },
  statuses: { default: Object.freeze<number[]>([]), check: checkStatuses },
  methods: { default: Object.freeze(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']), check: checkMethods },
  when: functionOption<NonNullable<RetryOptions['when']>>(),
});

/** Retry options with every default filled in. */
export type ResolvedRetryOptions = Omit<Complete<RetryOptions>, 'budget' | 'when'> & {
  readonly budget: Complete<RetryBudgetOptions>;
  readonly when: RetryOptions['when'];
};

/** Fills in defaults. Throws EVENKEEL_OPTION for invalid values. */
export const resolveRetryOptions = (options?: RetryOptions): ResolvedRetryOptions => retryTable.resolve(options);

function checkStatuses(name: string, statuses: unknown): readonly number[] {
  if (!Array.isArray(statuses)) throw optionError(name, 'a list of statuses', statuses);
  return statuses.map((status, index) =>
    checkNumber(`${name}[${index}]`, status ?? Number.NaN, 0, { min: 400, max: 599, integer: true }),
  );
}

/** Matches an HTTP method: a token (RFC 9110, 5.6.2); case matters, and known methods are upper case. */
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
