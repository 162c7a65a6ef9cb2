import { outcomes } from '../endpoint/outcome.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import type { TriedEndpoints } from '../retry/tried-endpoints.js';
import type { PickOptions } from './acquire-options.js';
import type { AttemptSource } from './attempted-call.js';
import { type CallLease, callLease } from './lease.js';

/** How many endpoints that asked clients to pause are skipped before the search ends. */
const MAX_SKIPPED = 4;

/**
 * Picks an endpoint for another attempt of a call that could also keep its current attempt. The current attempt is given up only for an
 * endpoint that can take the call now, on which the call was not tried, and which did not ask for a pause: an endpoint that has just
 * refused another call would refuse this one too. If there is none, the call keeps its attempt, and the price of the next attempt is
 * refunded. A hedge starts by the same rule.
 *
 * @param tried Gets the endpoints that were skipped, so that a later attempt prefers others.
 */
export function pickOther<C>(
  source: Pick<AttemptSource<C>, 'pick'>,
  retries: Pick<RetryPolicy, 'refund'>,
  tried: TriedEndpoints<C>,
  options: Pick<PickOptions, 'key' | 'unlimited'>,
): CallLease<C> | undefined {
  const other = findOther(source, tried, options);
  if (other === undefined) retries.refund();
  return other;
}

function findOther<C>(
  source: Pick<AttemptSource<C>, 'pick'>,
  tried: TriedEndpoints<C>,
  { key, unlimited }: Pick<PickOptions, 'key' | 'unlimited'>,
): CallLease<C> | undefined {
  const { avoid } = tried;
  for (let skipped = 0; skipped <= MAX_SKIPPED; skipped++) {
    const picked = source.pick({ key, avoid, unlimited });
    if (picked === undefined) return undefined;
    const lease = callLease(picked);
    const isNew = !avoid.has(lease.subchannel);
    if (isNew && lease.subchannel.pushedBackUntilMs <= lease.startedMs) return lease;
    lease.end(outcomes.notStarted);
    if (!isNew) return undefined;
    // The skipped endpoint got nothing, so it may still get the call if all others fail.
    tried.add(lease, outcomes.notStarted);
  }
  return undefined;
}
