import { EvenkeelError } from '../errors.js';
import { inFlight } from '../load/in-flight.js';
import type { LoadFactory } from '../load/load.js';
import { peakEwma } from '../load/peak-ewma.js';
import { relativeLatency } from '../load/relative-latency.js';
import { reported } from '../load/reported.js';
import * as pickers from '../picker/all.js';
import type { PickerFactory } from '../picker/picker.js';
import { quoted } from '../runtime/check.js';
import type { Made } from './format.js';

/** A function that makes a picker or a load, such as `p2c`. Some take no options, and throw if they get any. */
type Maker<T> = ((options: never) => T) | (() => T);

const loads: Readonly<Record<string, Maker<LoadFactory>>> = { inFlight, peakEwma, relativeLatency, reported };

/** Makes one of evenkeel's own pickers or loads by its name. Throws EVENKEEL_OPTION for an unknown name. */
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
    const names = Object.keys(makers).join(', ');
    throw new EvenkeelError('EVENKEEL_OPTION', `there is no ${what} ${quoted(name, 80)}; there are ${names}`);
  }
  const restored: Record<string, unknown> = {};
  for (const [option, value] of Object.entries(options)) {
    if (value === 'Infinity') restored[option] = Number.POSITIVE_INFINITY;
    else restored[option] = isMade(value) ? make.picker(value) : value;
  }
  return Object.keys(restored).length === 0 ? (maker as () => T)() : maker(restored as never);
}

function isMade(value: unknown): value is Made {
  return typeof value === 'object' && value !== null && 'name' in value && 'options' in value;
}
