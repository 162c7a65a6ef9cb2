import { EvenkeelError } from '../errors.js';
import { inFlight } from '../load/in-flight.js';
import type { LoadFactory } from '../load/load.js';
import { peakEwma } from '../load/peak-ewma.js';
import { relativeLatency } from '../load/relative-latency.js';
import { reported } from '../load/reported.js';
import { hash } from '../picker/hash.js';
import { hotCold } from '../picker/hot-cold.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../picker/least-loaded.js';
import { p2c } from '../picker/p2c.js';
import type { PickerFactory } from '../picker/picker.js';
import { preferenceOrder } from '../picker/preference-order.js';
import { random } from '../picker/random.js';
import { roundRobin } from '../picker/round-robin.js';
import { weightedRoundRobin } from '../picker/weighted-round-robin.js';
import { quoted } from '../runtime/check.js';
import type { Made } from './format.js';

type Maker<T> = (options: never) => T;

const pickers: Readonly<Record<string, Maker<PickerFactory>>> = {
  hash,
  hotCold,
  leastLoaded: () => leastLoaded(),
  neverQueue: () => neverQueue(),
  p2c,
  preferenceOrder: () => preferenceOrder(),
  random: () => random(),
  roundRobin: () => roundRobin(),
  shortestExpectedDelay: () => shortestExpectedDelay(),
  weightedRoundRobin,
};
const loads: Readonly<Record<string, Maker<LoadFactory>>> = {
  inFlight: () => inFlight(),
  peakEwma,
  relativeLatency: () => relativeLatency(),
  reported,
};

/** Creates one of our pickers or loads by name. Throws EVENKEEL_OPTION for an unknown one. */
export const make: {
  readonly picker: (made: Made) => PickerFactory;
  readonly load: (made: Made) => LoadFactory;
} = {
  picker: (made) => of('picker', pickers, made),
  load: (made) => of('load', loads, made),
};

function of<T>(what: string, makers: Readonly<Record<string, Maker<T>>>, { name, options }: Made): T {
  const maker = Object.hasOwn(makers, name) ? makers[name] : undefined;
  if (maker === undefined) {
    const known = Object.keys(makers).join(', ');
    throw new EvenkeelError('EVENKEEL_OPTION', `there is no ${what} ${quoted(name, 80)}; there are ${known}`);
  }
  const given: Record<string, unknown> = {};
  for (const [option, value] of Object.entries(options)) {
    if (value === 'Infinity') given[option] = Number.POSITIVE_INFINITY;
    else given[option] = isMade(value) ? make.picker(value) : value;
  }
  return maker(given as never);
}

function isMade(value: unknown): value is Made {
  return typeof value === 'object' && value !== null && 'name' in value && 'options' in value;
}
