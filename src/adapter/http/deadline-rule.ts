import { checkNumber, optionError } from '../kit/index.js';

/** How long a request may take, in ms; undefined = no limit. */
export type DeadlineOf<R> = (request: R) => number | undefined;

/** Longest deadline, in ms. */
const MAX_DEADLINE_MS = 86_400_000;

/** The deadline of each request. Throws EVENKEEL_OPTION, and so does the rule if a function returns an invalid value. */
export function deadlineRule<R>(deadlineMs: unknown): DeadlineOf<R> {
  if (typeof deadlineMs === 'function') {
    return (request) => {
      const limitMs: unknown = deadlineMs(request);
      if (limitMs === undefined || limitMs === Number.POSITIVE_INFINITY) return undefined;
      // Nothing may be left of a caller's own deadline. Then the request ends immediately; it must not be without a limit.
      if (typeof limitMs === 'number' && limitMs <= 0) return 1;
      return checkNumber('deadlineMs()', limitMs, 0, { above: 0, max: MAX_DEADLINE_MS });
    };
  }
  if (typeof deadlineMs !== 'number') throw optionError('deadlineMs', 'a number or a function', deadlineMs);
  const limitMs = checkNumber('deadlineMs', deadlineMs, 0, { min: 1, max: MAX_DEADLINE_MS });
  return () => limitMs;
}
