import { checkNumber, optionError } from '../kit/index.js';

/** How long a request may take, in ms; undefined = as long as it takes. */
export type DeadlineOf<R> = (request: R) => number | undefined;

/** Longest deadline, in ms. */
const MAX_DEADLINE_MS = 86_400_000;

/** What the option `deadlineMs` says of each request. Throws EVENKEEL_OPTION; so does the rule for what a function returns. */
export function deadlineRule<R>(deadlineMs: unknown): DeadlineOf<R> {
  if (typeof deadlineMs === 'function') {
    return (request) => {
      const limitMs: unknown = deadlineMs(request);
      if (limitMs === undefined || limitMs === Number.POSITIVE_INFINITY) return undefined;
      // What is left of somebody else's deadline may be nothing: then it is over at once, and not without a limit.
      if (typeof limitMs === 'number' && limitMs <= 0) return 1;
      return checkNumber('deadlineMs()', limitMs, 0, { above: 0, max: MAX_DEADLINE_MS });
    };
  }
  if (typeof deadlineMs !== 'number') throw optionError('deadlineMs', 'a number or a function', deadlineMs);
  const limitMs = checkNumber('deadlineMs', deadlineMs, 0, { min: 1, max: MAX_DEADLINE_MS });
  return () => limitMs;
}
