import { checkNumber } from '../runtime/check.js';

/** Checks `shedAfterMs`; the default is CoDel's interval (RFC 8289, 4.2). */
export function shedAfterMsOf(given: number | undefined): number {
  return checkNumber('shedAfterMs', given, 100, { min: 1, infinite: true });
}
