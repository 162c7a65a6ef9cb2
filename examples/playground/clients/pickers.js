// @ts-check
/** The pickers that can be chosen by name on the command line. */
import { leastLoaded, p2c, random, roundRobin } from 'evenkeel';

/** @type {Readonly<Record<string, () => import('evenkeel').PickerFactory>>} */
export const pickers = { p2c, 'round-robin': roundRobin, 'least-loaded': leastLoaded, random };

/** As options of an entry point: none if no name is given, so that its default applies. @param {string | undefined} name */
export function chosen(name) {
  const make = name === undefined ? undefined : Object.hasOwn(pickers, name) ? pickers[name] : undefined;
  return make && { picker: make() };
}
