import { optionError } from '../runtime/check.js';
import { described, descriptionOf } from '../runtime/described.js';
import { ownProperties } from '../runtime/own-properties.js';
import { topologyFromEnv } from '../runtime/topology.js';
import { conditions } from './conditions.js';
import { outlierEjection } from './outlier-ejection.js';
import { panic } from './panic.js';
import { pushback } from './pushback.js';
import type { StageFactory } from './stage.js';
import { topologyHints } from './zone-hints.js';

/** The name of a stage that every balancer has unless its options take that stage out. */
export type StandardStageName = 'conditions' | 'topologyHints' | 'outlierEjection' | 'pushback' | 'panic';

const standard: Readonly<Record<StandardStageName, () => StageFactory | undefined>> = {
  conditions,
  topologyHints: ownHints,
  outlierEjection,
  pushback,
  panic,
};

/**
 * The order of this library's stages: first who may get calls at all, then who of them is healthy, then how much each gets, and last
 * `panic`, which looks at the result of all others.
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

/** Follows hints by zone and by node where the environment says where this process runs; undefined elsewhere. */
function ownHints(): StageFactory | undefined {
  const place = topologyFromEnv();
  return place.zone === undefined && place.nodeName === undefined ? undefined : topologyHints(place);
}

/** Lists of stages that are complete, which `stagesOf` returns unchanged. */
const complete = new WeakSet<readonly StageFactory[]>();

/**
 * Takes standard stages out: `stages: [without('outlierEjection')]`. Throws EVENKEEL_OPTION for other names.
 *
 * @param names Names of standard stages: `conditions`, `topologyHints`, `outlierEjection`, `pushback`, `panic`.
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
 * Returns all stages of a balancer in their order, from those that its options list; without any, the standard stages with their defaults.
 * The application's own come first, in the order of the list, because they say which endpoints are meant. Then come the standard stages and
 * added ones, in the library's order. A stage with the name of a standard one takes its place.
 */
export function stagesOf(stages: readonly StageFactory[] = []): readonly StageFactory[] {
  if (complete.has(stages)) return stages;
  const own: StageFactory[] = [];
  const named = new Map<string, StageFactory>();
  for (const [name, make] of Object.entries(standard)) {
    const stage = make();
    if (stage !== undefined) named.set(name, stage);
  }
  for (const stage of stages) {
    const { name = '', taken = [] } = ownProperties(descriptionOf(stage) ?? { name: '', taken: [] });
    if (name === 'without') for (const standardName of taken) named.delete(standardName);
    else if (order.includes(name)) named.set(name, stage);
    else own.push(stage);
  }
  return exactStages([...own, ...order.flatMap((name) => named.get(name) ?? [])]);
}

/** Marks a list of stages as complete and in order, so that no standard stage is added. For adapters. */
export function exactStages(stages: readonly StageFactory[]): readonly StageFactory[] {
  complete.add(stages);
  return stages;
}
