import { checkNoOptions } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import type { CostRule } from './cost.js';
import { DrawPicker } from './draw-picker.js';
import { HeapPicker } from './heap-picker.js';
import { ownSet, type PickerFactory } from './picker.js';
import { ScanPicker } from './scan-picker.js';

/** Endpoints whose loads decay with time are compared one by one up to this many; beyond, `CHOICES` of them are drawn. */
const SCAN_UP_TO = 64;
const CHOICES = 8;

/**
 * The least loaded endpoint of all, per weight (IPVS: lc, wlc). O(log n) for loads that change only with calls, such as `inFlight`. For
 * loads that decay with time the picker compares all endpoints up to 64, and 8 random ones beyond.
 *
 * Best where one client sends most of the load. With many clients that see only their own calls, `p2c` is as good, and they do not all
 * choose the same endpoint.
 */
export const leastLoaded = (...none: []): PickerFactory => leastBy('share', 'leastLoaded', none);

/**
 * The endpoint that would finish the call first if weight were speed: the least (load including the next call) / weight
 * (IPVS: sed). An idle client uses only the heaviest endpoints. O(log n), as `leastLoaded`.
 */
export const shortestExpectedDelay = (...none: []): PickerFactory => leastBy('delay', 'shortestExpectedDelay', none);

/** An idle endpoint if there is one, by weight and turn; otherwise the shortest expected delay (IPVS: nq). O(log n). */
export const neverQueue = (...none: []): PickerFactory => leastBy('never-queue', 'neverQueue', none);

function leastBy(rule: CostRule, name: string, none: readonly unknown[]): PickerFactory {
  checkNoOptions(name, none);
  const factory: PickerFactory = (set, previous, { rng }) => {
    const own = ownSet(set);
    const { targets } = own;
    if (targets[0]?.load.decays !== true) return new HeapPicker(rule, own, previous, rng);
    return targets.length <= SCAN_UP_TO
      ? new ScanPicker(rule, own, previous, rng)
      : new DrawPicker(rule, own, CHOICES, rng);
  };
  return described(factory, name);
}
