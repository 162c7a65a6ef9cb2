import { isEvenkeelError } from '../errors.js';
import { adaptive } from '../limit/adaptive.js';
import { fixed } from '../limit/fixed.js';
import type { LimitFactory } from '../limit/limit.js';
import type { LoadFactory } from '../load/load.js';
import * as pickers from '../picker/all.js';
import type { PickerFactory } from '../picker/picker.js';
import { checkFunction, optionError } from '../runtime/check.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { activeHealth } from '../stage/active-health.js';
import { conditions } from '../stage/conditions.js';
import { outlierEjection } from '../stage/outlier-ejection.js';
import { panic } from '../stage/panic.js';
import { pushback } from '../stage/pushback.js';
import { slowStart } from '../stage/slow-start.js';
import type { Stage, StageContext, StageFactory } from '../stage/stage.js';
import { without } from '../stage/standard-stages.js';
import { subset } from '../stage/subset.js';
import { zone } from '../stage/zone.js';
import { topologyHints } from '../stage/zone-hints.js';

/**
 * Options such as `load` take factory functions, and `peakEwma`, which creates one, is a function too. Somebody who writes `load: peakEwma`
 * instead of `load: peakEwma()` gets an error that says so.
 */

/**
 * Throws EVENKEEL_OPTION unless `load` creates loads, which is tried once. If the trial throws another error, the pool deals with that load
 * later.
 */
export function checkLoad(load: LoadFactory): void {
  checkFunction('load', load);
  const made = attempt(() => load({ loads: [] }));
  if (made === threw || hasMethods(made, ['start', 'end', 'value'])) return;
  throw optionError('load', 'a load such as inFlight(), with its parentheses', load);
}

/** Throws EVENKEEL_OPTION unless `limit` creates limits. */
export function checkLimit(limit: LimitFactory): void {
  checkFunction('limit', limit);
  const made = limitMakers.has(limit) ? undefined : attempt(() => limit());
  if (hasMethods(made, ['answered', 'gaveUp', 'overloaded'])) return;
  throw optionError('limit', 'a limit such as adaptive(), with its parentheses', limit);
}

const limitMakers: ReadonlySet<unknown> = new Set([adaptive, fixed]);

/** The functions that return a picker factory when they are called with options. */
const pickerMakers: ReadonlySet<unknown> = new Set(Object.values(pickers));

/**
 * Throws EVENKEEL_OPTION for anything but a function, and for evenkeel's own functions without their parentheses. The factory is not
 * called, because a picker may depend on the endpoints of its set.
 */
export function checkPicker(picker: PickerFactory): void {
  if (typeof picker !== 'function') throw optionError('picker', 'a picker such as p2c()', picker);
  if (pickerMakers.has(picker)) throw optionError('picker', 'a picker such as p2c(), with its parentheses', picker);
}

/** The functions that return a stage factory, or a list of them, when they are called with options. */
const stageMakers: ReadonlySet<unknown> = new Set([
  activeHealth,
  conditions,
  outlierEjection,
  panic,
  pushback,
  slowStart,
  without,
  subset,
  topologyHints,
  zone,
]);

/** Throws EVENKEEL_OPTION for anything but a list of functions, and for evenkeel's own functions without their parentheses. */
export function checkStages(stages: readonly StageFactory[]): void {
  if (!Array.isArray(stages)) throw optionError('stages', 'a list of stages', stages);
  stages.forEach(checkStage);
}

function checkStage(factory: unknown, index: number): void {
  const name = `stages[${index}]`;
  if (Array.isArray(factory)) {
    throw optionError(name, 'a stage, not a list of them', factory);
  }
  if (typeof factory === 'function' && !stageMakers.has(factory)) return;
  throw optionError(name, 'a stage such as conditions(), with its parentheses', factory);
}

/**
 * Creates the stage at `index` of the option `stages`. Throws EVENKEEL_OPTION if the factory returns something else, and what the factory
 * throws.
 */
export function makeStage(factory: StageFactory, index: number, context: StageContext): Stage {
  checkStage(factory, index);
  const stage = factory(context);
  if (hasMethods(stage, ['apply'])) return stage;
  throw optionError(`stages[${index}]`, 'a stage such as conditions(), with its parentheses', factory);
}

const threw = Symbol('threw');

function attempt(make: () => unknown): unknown {
  try {
    return make();
  } catch (error) {
    // EVENKEEL_OPTION means that a function which takes options got the arguments meant for a factory: its parentheses were forgotten.
    return isEvenkeelError(error, 'EVENKEEL_OPTION') ? undefined : threw;
  }
}

function hasMethods(value: unknown, names: readonly string[]): boolean {
  ignoreRejection(value);
  if (typeof value !== 'object' || value === null) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}
