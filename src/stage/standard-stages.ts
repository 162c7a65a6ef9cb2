import { optionError } from '../runtime/check.js';
import { described, descriptionOf } from '../runtime/described.js';
import { conditions } from './conditions.js';
import { outlierEjection } from './outlier-ejection.js';
import { panic } from './panic.js';
import { pushback } from './pushback.js';
import type { StageFactory } from './stage.js';

/** The standard stages: every balancer has them unless its options take one out. */
export type StandardStageName = 'conditions' | 'outlierEjection' | 'pushback' | 'panic';

const standard: Readonly<Record<StandardStageName, () => StageFactory>> = {
  conditions,
  outlierEjection,
  pushback,
  panic,
};

/**
 * The order in which the stages of this library belong: who may get calls at all, who of them is healthy, how much each gets, and panic last,
 * which looks at the result of all others.
 */
const order: readonly string[] = [
  'conditions',
  'topologyHints',
  'subset',
  'activeHealth',
  'outlierEjection',
  'zone',
  'slowStart',
  'pushback',
  'panic',
];

/** The standard stages, each with its defaults, in their order. */
export function standardStages(): readonly StageFactory[] {
  return exactStages(order.flatMap((name) => (name in standard ? [standard[name as StandardStageName]()] : [])));
}

/** Lists of stages that are complete: `stagesOf` returns them unchanged. */
const complete = new WeakSet<readonly StageFactory[]>();

/**
 * Takes standard stages out: `stages: [without('outlierEjection')]`. Throws EVENKEEL_OPTION for other names.
 *
 * @param names `conditions`, `outlierEjection`, `pushback`, `panic`.
 */
export function without(...names: StandardStageName[]): StageFactory {
  for (const name of names) {
    if (!Object.hasOwn(standard, name)) {
      throw optionError('without()', `names of standard stages: ${Object.keys(standard).join(', ')}`, name);
    }
  }
  return described(() => ({ apply: (set) => set }), 'without', names);
}

/**
 * All stages of a balancer, in order, from those that its options name: the application's own first, in the order of the list, since they
 * say which endpoints are meant; then the standard stages and those that were added, in the library's order. A stage of the same
 * name takes the place of a standard one.
 */
export function stagesOf(stages: readonly StageFactory[] = []): readonly StageFactory[] {
  if (complete.has(stages)) return stages;
  const own: StageFactory[] = [];
  const named = new Map<string, StageFactory>(Object.entries(standard).map(([name, make]) => [name, make()]));
  for (const stage of stages) {
    const { name = '', options = [] } = descriptionOf(stage) ?? {};
    if (name === 'without') for (const standardName of options as StandardStageName[]) named.delete(standardName);
    else if (order.includes(name)) named.set(name, stage);
    else own.push(stage);
  }
  return exactStages([...own, ...order.flatMap((name) => named.get(name) ?? [])]);
}

/** Says that a list is complete and in order, so that no standard stage is added. For adapters. */
export function exactStages(stages: readonly StageFactory[]): readonly StageFactory[] {
  complete.add(stages);
  return stages;
}
