import type { Priority } from '../../index.js';
import { checkPriority, ignoreRejection, inheritedPriority, type Propagation, remainingOf } from '../kit/index.js';
import type { DeadlineOf } from './request-deadline.js';

/** The options of a client that say what each of its requests asks for. */
export interface TermRules<R> {
  readonly key?: ((request: R) => string | null | undefined) | undefined;
  readonly priority?: ((request: R) => Priority | undefined) | undefined;
  readonly deadlineMs?: DeadlineOf<R> | undefined;
}

/** What one request asks for. */
export interface RequestTerms {
  /** What hash pickers hash. */
  readonly key: string | undefined;
  readonly priority: Priority | undefined;
  /** The request's own deadline, and what is left of that of the request being served, in ms; undefined = none. */
  readonly ownMs: number | undefined;
  readonly inheritedMs: number | undefined;
}

/**
 * Asks the application what `request` asks for. Throws what its functions throw, and EVENKEEL_OPTION for an invalid result. A promise is one,
 * and may reject unheard.
 */
export function termsOf<R>(request: R, rules: TermRules<R>, propagation: Propagation | undefined): RequestTerms {
  const key = rules.key?.(request) ?? undefined;
  ignoreRejection(key);
  const served = propagation?.context?.current() ?? undefined;
  ignoreRejection(served);
  const own: unknown = rules.priority?.(request);
  ignoreRejection(own);
  const priority = own === undefined ? served && inheritedPriority(served) : checkPriority(own);
  return { key, priority, ownMs: rules.deadlineMs?.(request), inheritedMs: served && remainingOf(served) };
}
