import { checkNoOptions } from '../runtime/check.js';
import type { CostRule } from './cost.js';
import { DrawPicker } from './draw-picker.js';
import { HeapPicker } from './heap-picker.js';
import { ownSet, type PickerFactory } from './picker.js';
import { ScanPicker } from './scan-picker.js';

/**
 * With loads that decay with time, up to `SCAN_UP_TO` endpoints are compared one by one; in larger sets, `CHOICES` of them are drawn and
 * compared.
 */
const SCAN_UP_TO = 64;
const CHOICES = 8;

/**
 * Picks the least loaded endpoint of all, per weight (IPVS: lc, wlc). O(log n) for loads that change only with calls, such as `inFlight`.
 * For loads that decay with time it compares all endpoints up to 64, and 8 random ones in larger sets.
 *
 * Best where one client sends most of the load. With many clients that see only their own calls, `p2c` is as good, and those clients do not
 * all choose the same endpoint.
 */
export const leastLoaded = (...none: []): PickerFactory => leastBy('share', 'leastLoaded', none);

/**
 * Picks the endpoint that would finish the call first if weight were speed: the least (load including the next call) / weight (IPVS: sed).
 * An idle client uses only the heaviest endpoints. O(log n), with the exceptions of `leastLoaded`.
 */
export const shortestExpectedDelay = (...none: []): PickerFactory => leastBy('delay', 'shortestExpectedDelay', none);

/**
 * Picks an idle endpoint if there is one, by weight and in turns; otherwise the one with the shortest expected delay (IPVS: nq). O(log n),
 * with the exceptions of `leastLoaded`.
 */
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
  return factory;
}
