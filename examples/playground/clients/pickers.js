// @ts-check
/** The ways to choose that can be asked for by name on the command line. */
import { leastLoaded, p2c, random, roundRobin } from 'evenkeel';

/** @type {Readonly<Record<string, () => import('evenkeel').PickerFactory>>} */
export const pickers = { p2c, 'round-robin': roundRobin, 'least-loaded': leastLoaded, random };

/** As options of a door: nothing when no name is given, so that the door's own default stands. @param {string | undefined} name */
export function chosen(name) {
  const make = name === undefined ? undefined : pickers[name];
  return make && { picker: make() };
}
