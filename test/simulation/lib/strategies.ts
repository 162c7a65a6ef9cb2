import { inFlight } from '../../../src/load/in-flight.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { hash } from '../../../src/picker/hash.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { p2c } from '../../../src/picker/p2c.js';
import { random } from '../../../src/picker/random.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { weightedRoundRobin } from '../../../src/picker/weighted-round-robin.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import type { Strategy } from './world.js';

type StrategyName =
  | 'random'
  | 'roundRobin'
  | 'weightedRoundRobin'
  | 'p2c'
  | 'leastLoaded'
  | 'shortestExpectedDelay'
  | 'neverQueue'
  | 'hash'
  | 'standard'
  | 'p2cByLatency'
  | 'leastByLatency';

/** Every picker, over the loads it is meant for. */
export const strategies: Readonly<Record<StrategyName, Strategy>> = {
  random: { name: 'random', picker: random() },
  roundRobin: { name: 'roundRobin', picker: roundRobin() },
  weightedRoundRobin: { name: 'weightedRoundRobin', picker: weightedRoundRobin() },
  p2c: { name: 'p2c, inFlight', picker: p2c(), load: inFlight() },
  leastLoaded: { name: 'leastLoaded', picker: leastLoaded(), load: inFlight() },
  shortestExpectedDelay: { name: 'shortestExpectedDelay', picker: shortestExpectedDelay() },
  neverQueue: { name: 'neverQueue', picker: neverQueue() },
  hash: { name: 'hash, with keys', picker: hash(), keyed: true },
  standard: { name: 'p2c, relativeLatency', picker: p2c(), load: relativeLatency() },
  p2cByLatency: { name: 'p2c, peakEwma', picker: p2c(), load: peakEwma() },
  leastByLatency: { name: 'leastLoaded, peakEwma', picker: leastLoaded(), load: peakEwma() },
};

/** Those that look at latency. */
export const latencyAware: readonly Strategy[] = [
  strategies.standard,
  strategies.p2cByLatency,
  strategies.leastByLatency,
];

export const allStrategies: readonly Strategy[] = Object.values(strategies);

/** The same with stages. */
export function withStages(strategy: Strategy, stages: readonly StageFactory[]): Strategy {
  return { ...strategy, stages };
}
