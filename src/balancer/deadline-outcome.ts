import { type Outcome, outcomes } from '../endpoint/outcome.js';

/**
 * What it says of an endpoint that its call was cut by a deadline `limitMs` long: a time-out, if it had the call for half of
 * that or more and has not begun to answer. Of less it cannot be blamed: the time went elsewhere.
 */
export function outcomeAtDeadline(heldMs: number, limitMs: number, answered: boolean): Outcome {
  return !answered && 2 * heldMs >= limitMs ? outcomes.timeout : outcomes.cancelled;
}
