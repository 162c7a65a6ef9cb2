import { checkNumber, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { type OptionTable, optionTable } from '../runtime/options.js';
import type { Limit, LimitFactory } from './limit.js';
import { shedAfterOption } from './shed-after.js';

/** Options of `fixed`: how long callers may wait. Invalid options throw EVENKEEL_OPTION. */
export interface FixedOptions {
  /** How long a caller may wait for the limit before it is shed, in ms: see `Limit.shedAfterMs`. @defaultValue 100 */
  readonly shedAfterMs?: number | undefined;
}

const fixedTable: OptionTable<Complete<FixedOptions>> = optionTable('fixed', { shedAfterMs: shedAfterOption });

/**
 * A constant limit: Envoy's `max_requests`.
 *
 * @param max How many calls may run at once, at least 1.
 * @throws EVENKEEL_OPTION for an invalid number.
 */
export function fixed(max: number, options: FixedOptions = {}): LimitFactory {
  const { shedAfterMs } = fixedTable.resolve(options);
  if (max === undefined) throw optionError('fixed(max)', 'a number', max);
  const limit: Limit = Object.freeze({
    max: checkNumber('fixed(max)', max, 0, { min: 1, max: 1_000_000, integer: true }),
    shedAfterMs,
    answered: () => {},
    gaveUp: () => {},
    overloaded: () => {},
  });
  return () => limit;
}
