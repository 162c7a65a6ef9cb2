import { checkNumber, optionError } from '../../runtime/check.js';
import { numberOption, type Option, optionTable, requiredOption } from '../../runtime/options.js';

/** How many connections each pod has: at least `min`, which are kept open, and at most `max`. */
export interface ConnectionCounts {
  /** How many connections to a pod stay open even when idle, from 1. */
  readonly min: number;
  /** How many connections to a pod are opened at most under load, from `min` to 100. */
  readonly max: number;
}

/** The bounds for the number of connections to one pod. */
const count = { min: 1, max: 100, integer: true };

const table = optionTable<ConnectionCounts>('connections', {
  min: numberOption(1, count),
  max: requiredOption((name, value) => {
    if (value === undefined) throw optionError(name, 'a number', undefined);
    return checkNumber(name, value, 1, count);
  }),
});

/** The option `connections` of protocols that carry many calls on one connection: a number, or `{ min, max }`. */
export const connectionsOption = (usual: ConnectionCounts): Option<ConnectionCounts> => ({
  default: usual,
  check(name, value) {
    if (typeof value !== 'object' || value === null) {
      const fixed = checkNumber(name, value, 1, count);
      return { min: fixed, max: fixed };
    }
    const { min, max } = table.resolve(value);
    return { min, max: checkNumber('connections.max', max, min, { ...count, min }) };
  },
});
