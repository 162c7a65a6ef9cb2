import { fits, type PickRequest, type PickSet, type PickTarget } from './picker.js';

/**
 * What every picker falls back to when its choice cannot take the call: searching from index `from`, the first target
 * with capacity that is not avoided, otherwise the first with capacity, otherwise undefined. O(n), rarely used.
 */
export function firstFitting<T extends PickTarget>(set: PickSet<T>, request: PickRequest, from: number): T | undefined {
  const { targets } = set;
  const { length } = targets;
  let avoided: T | undefined;
  for (let step = 0; step < length; step++) {
    const target = targets[(from + step) % length] as T;
    if (fits(target, request)) return target;
    if (avoided === undefined && target.hasRoom) avoided = target;
  }
  return avoided;
}

/**
 * For pickers that keep an order: returns the index of the smallest key (turn, cost) among targets with capacity that are not
 * avoided, otherwise among all with capacity; -1 if none has capacity. O(n).
 */
export function leastFitting(set: PickSet, keys: Float64Array, request: PickRequest): number {
  const { targets } = set;
  let best = -1;
  let bestFits = false;
  for (let index = 0; index < targets.length; index++) {
    const target = targets[index] as PickTarget;
    if (!target.hasRoom) continue;
    const good = fits(target, request);
    if (bestFits && !good) continue;
    if (best === -1 || (good && !bestFits) || (keys[index] as number) < (keys[best] as number)) {
      best = index;
      bestFits = good;
    }
  }
  return best;
}
