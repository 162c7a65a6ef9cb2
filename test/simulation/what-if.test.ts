import { describe, expect, it } from 'vitest';
import { inFlight } from '../../src/load/in-flight.js';
import { relativeLatency } from '../../src/load/relative-latency.js';
import { leastLoaded } from '../../src/picker/least-loaded.js';
import { p2c } from '../../src/picker/p2c.js';
import { random } from '../../src/picker/random.js';
import { roundRobin } from '../../src/picker/round-robin.js';
import { flightRecorder } from '../../src/recorder/flight-recorder.js';
import { type DumpedBalancer, readDump } from '../../src/recorder/read-dump.js';
import { fitService } from '../../src/recorder/service-model.js';
import { trafficOf } from '../../src/recorder/traffic.js';
import { whatIf } from '../../src/recorder/what-if.js';
import { PROOF } from './lib/proof.js';
import { exponential, lognormal, type Server } from './lib/server.js';
import type { Machine } from './lib/shared-server.js';
import { type Strategy, World, type WorldOptions } from './lib/world.js';

const strategies = {
  random: { name: 'random', picker: random(), load: inFlight() },
  roundRobin: { name: 'roundRobin', picker: roundRobin(), load: inFlight() },
  p2c: { name: 'p2c, inFlight', picker: p2c(), load: inFlight() },
  standard: { name: 'p2c, relativeLatency', picker: p2c(), load: relativeLatency() },
  least: { name: 'leastLoaded', picker: leastLoaded(), load: inFlight() },
} satisfies Record<string, Strategy>;

type Situation = Partial<WorldOptions> & { readonly slow?: number };

/** A minute of ten servers, one of them slow if wanted: what a strategy does there, and its recording. */
async function real(strategy: Strategy, { slow, ...options }: Situation, seed: number, lengthMs: number) {
  const recorder = flightRecorder({ seconds: 3_600, bytes: 2 ** 26 });
  const world = new World({
    seed,
    strategy,
    servers: 10,
    callsPerSecond: 1_000,
    serviceTime: lognormal(20, 0.5),
    workers: 4,
    recorder,
    ...options,
  });
  if (slow !== undefined) (world.servers[3] as Server).behaviour = () => ({ kind: 'serve', slower: slow });
  await world.start(5_000);
  const tally = await world.run(lengthMs);
  await world.run(5_000);
  const dump = recorder.dump();
  await world.close();
  return { p50: tally.quantileMs(0.5), p99: tally.quantileMs(0.99), dump };
}

const machine = (): Machine => ({ allocated: 4, speed: 1, cores: () => 4, coresForMs: () => 1e9 });

/** What is recorded, and three configurations in the order of their 99th percentiles there, with more than the bound between them. */
const situations: readonly [string, Situation, Strategy, readonly Strategy[]][] = [
  [
    'exponential, 80 % loaded',
    { callsPerSecond: 1_600, serviceTime: exponential(20) },
    strategies.standard,
    [strategies.least, strategies.roundRobin, strategies.random],
  ],
  [
    'cores that are shared, 80 % loaded',
    { callsPerSecond: 1_600, serviceTime: exponential(20), machine },
    strategies.roundRobin,
    [strategies.least, strategies.roundRobin, strategies.random],
  ],
  [
    'one at 40 % of its speed',
    { slow: 2.5, callsPerSecond: 600 },
    strategies.roundRobin,
    [strategies.standard, strategies.p2c, strategies.random],
  ],
];

describe('what another configuration would have done', () => {
  // The last is the quickest.
  it.each(PROOF ? situations : situations.slice(2))(
    '%s: in the right order, 99th percentiles within 25 %%',
    async (_name, situation, recordedWith, inOrder) => {
      // So that a 99th percentile is one of at least 60 calls.
      const lengthMs = 15_000;
      const { dump } = await real(recordedWith, situation, 1, lengthMs);
      const traffic = trafficOf(readDump(dump).balancers[0] as DumpedBalancer);
      const model = fitService(traffic.calls);
      const rows = [];
      for (const strategy of inOrder) {
        const truth = await real(strategy, situation, 2, lengthMs);
        const told = await whatIf(traffic, model, {
          picker: strategy.picker,
          load: strategy.load ?? inFlight(),
          limit: undefined,
        });
        rows.push({ name: strategy.name, truth: truth.p99, told: told.p99Ms, ratio: told.p99Ms / truth.p99 });
      }
      expect(rows.map(({ told }) => told)).toEqual(rows.map(({ told }) => told).sort((a, b) => a - b));
      expect(rows.map(({ truth }) => truth)).toEqual(rows.map(({ truth }) => truth).sort((a, b) => a - b));
      for (const { ratio } of rows) expect(Math.abs(ratio - 1)).toBeLessThan(0.25);
    },
  );
});
