import type { Filled } from '../runtime/complete.js';
import { type OptionTable, optionalNumber, optionTable } from '../runtime/options.js';
import { DrawPicker } from './draw-picker.js';
import { ownSet, type PickerFactory } from './picker.js';
import { ScanPicker } from './scan-picker.js';

/** Options of `p2c`: how many endpoints are compared. Invalid options throw EVENKEEL_OPTION. */
export interface P2cOptions {
  /**
   * How many endpoints are drawn per call, 2 to 16; at most 3 if weights differ. If this option is not set, `relativeLatency` raises the
   * number to 8 while servers report their load. @defaultValue 3
   */
  readonly choices?: number | undefined;
}

export const p2cTable: OptionTable<Filled<P2cOptions, 'choices'>> = optionTable('p2c', {
  choices: optionalNumber({ min: 2, max: 16, integer: true }),
});

/** With fewer endpoints than this, comparing all of them costs no more than drawing some, and is exact. */
const SCAN_BELOW = 8;

/**
 * Power of two choices, plus one: draws three distinct targets and picks the one with the least load per weight; with fewer than 8
 * endpoints it compares all. O(1) per pick. The fullest server stays about ln ln n above the mean, without coordination between clients.
 * Source: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, IEEE TPDS 12(10), 2001.
 */
export const p2c = (options: P2cOptions = {}): PickerFactory => {
  const { choices } = p2cTable.resolve(options);
  const factory: PickerFactory = (set, previous, { rng }) =>
    set.targets.length < SCAN_BELOW
      ? new ScanPicker('share', ownSet(set), previous, rng)
      : new DrawPicker('share', ownSet(set), choices, rng);
  return factory;
};
