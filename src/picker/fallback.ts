import { fits, type PickRequest, type PickSet, type PickTarget } from './picker.js';

/**
 * Finds a target for a picker whose own choice cannot take the call. Searching from index `from`, returns the first target with room that
 * the call does not avoid, otherwise the first with room, otherwise undefined. O(n), but rarely needed.
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
 * Finds a target for a picker that keeps an order: returns the index of the smallest key (turn or cost) among targets with room that the
 * call does not avoid, otherwise among all with room; -1 if none has room. O(n).
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
