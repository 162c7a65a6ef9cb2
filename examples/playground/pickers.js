// @ts-check
/** The ways to choose that can be asked for by name on the command line. */
import { leastLoaded, p2c, random, roundRobin } from 'evenkeel';

/** @type {Readonly<Record<string, () => import('evenkeel').PickerFactory>>} */
export const pickers = { p2c, 'round-robin': roundRobin, 'least-loaded': leastLoaded, random };
