import { isEvenkeelError } from '../errors.js';
import type { LoadFactory } from '../load/load.js';
import type { PickerFactory, PickSet } from '../picker/picker.js';
import { checkFunction, optionError } from '../runtime/check.js';
import { systemRng } from '../runtime/rng.js';
import type { Stage, StageContext, StageFactory } from '../stage/stage.js';

/**
 * What is plugged in are functions that make something, and so are the functions that make those: `load: peakEwma` for
 * `load: peakEwma()` is a function too. Each is tried once, so that a mistake is an error where it was made. One that
 * throws of itself is left to whoever calls it later, who can do without.
 */

const noSubchannels: PickSet<never> = Object.freeze({
  subchannels: [],
  weights: [],
  equalWeights: true,
  all: [],
  allWeights: [],
});

/** Throws EVENKEEL_OPTION unless `load` makes loads. */
export function checkLoad(load: LoadFactory): void {
  checkFunction('load', load);
  const made = attempt(load);
  if (made === threw || hasMethods(made, ['start', 'end', 'value'])) return;
  throw optionError('load', 'a load such as inFlight(), with its parentheses', load);
}

/** Throws EVENKEEL_OPTION unless `picker` makes pickers. */
export function checkPicker(picker: PickerFactory): void {
  checkFunction('picker', picker);
  const made = attempt(() => picker(noSubchannels, undefined, { rng: systemRng }));
  if (made === threw || hasMethods(made, ['pick'])) return;
  throw optionError('picker', 'a picker such as p2c(), with its parentheses', picker);
}

/** Makes stage number `index`. Throws EVENKEEL_OPTION if that is none, and what the factory throws. */
export function makeStage(factory: StageFactory, index: number, context: StageContext): Stage {
  const stage = factory(context);
  if (hasMethods(stage, ['apply'])) return stage;
  throw optionError(`stages[${index}]`, 'a stage such as conditions(), with its parentheses', factory);
}

const threw = Symbol('threw');

function attempt(make: () => unknown): unknown {
  try {
    return make();
  } catch (error) {
    // A function that takes options was given what a factory is given.
    return isEvenkeelError(error, 'EVENKEEL_OPTION') ? undefined : threw;
  }
}

function hasMethods(value: unknown, names: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}
