import { type Outcome, outcomes } from '../endpoint/outcome.js';

/**
 * The outcome for an endpoint whose call was cut by a deadline of `limitMs`: a timeout, if the endpoint had the call for at
 * least half of that and has not started to respond. Otherwise most of the time was spent on other things.
 */
export function outcomeAtDeadline(heldMs: number, limitMs: number, answered: boolean): Outcome {
  return !answered && 2 * heldMs >= limitMs ? outcomes.timeout : outcomes.cancelled;
}
