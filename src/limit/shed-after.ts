import { checkNumber } from '../runtime/check.js';

/** Checks `shedAfterMs`; the default is CoDel's interval (RFC 8289, 4.2). */
export function shedAfterMsOf(value: number | undefined): number {
  return checkNumber('shedAfterMs', value, 100, { min: 1, infinite: true });
}
