import type { StageFactory } from '../../../src/stage/stage.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { prequalTestbed } from './prequal-testbed.js';
import { oneServerSlow } from './scenarios.js';
import { type Behaviour, exponential, lognormal, type Server } from './server.js';
import type { Tally } from './tally.js';
import { type Strategy, World, type WorldOptions } from './world.js';

/** What a run showed, by the name of its column. */
export type Measures = Readonly<Record<string, number>>;

/** One situation in which ways to balance are compared. */
export interface BalanceScenario {
  /** As on the command line. */
  readonly name: string;
  readonly title: string;
  run(strategy: Strategy, seed: number, effort?: number): Promise<Measures>;
}

export interface Play extends Omit<Partial<WorldOptions>, 'strategy' | 'seed'> {
  readonly servers: number;
  readonly callsPerSecond: number;
  readonly warmUpMs?: number;
  readonly lengthMs?: number;
  readonly behaviour?: (index: number, sinceMs: number) => Behaviour;
  readonly stages?: readonly StageFactory[];
  /** After the warm-up, before anything is measured. */
  readonly begin?: (world: World) => void;
}

/** Where nothing else is said: work of 10 ms on average with a long tail, four workers per pod. */
const usual = { workers: 4, serviceTime: lognormal(10, 1), networkMs: 0.25, callsBringWork: true };

/** Runs a scenario. `effort` shortens it. */
export async function play(strategy: Strategy, seed: number, scenario: Play, effort = 1): Promise<[Tally, World]> {
  const { warmUpMs = 10_000, lengthMs = 20_000, behaviour, stages, begin, ...options } = scenario;
  const own = stages === undefined ? strategy : { ...strategy, stages: [...(strategy.stages ?? []), ...stages] };
  const world = new World({ ...usual, ...options, seed, strategy: own });
  if (behaviour !== undefined) {
    world.servers.forEach((server, index) => {
      server.behaviour = (nowMs) => behaviour(index, nowMs);
    });
  }
  await world.start(warmUpMs);
  begin?.(world);
  const tally = await world.run(lengthMs * effort);
  await world.finish(tally, 6_000);
  await world.close();
  // A run is one long chain of microtasks, in which no weak reference lets go: without an end of it, no balancer is ever collected.
  await new Promise((resolve) => setImmediate(resolve));
  return [tally, world];
}

export const latencies = (tally: Tally): Measures => ({
  mean: tally.meanMs,
  p50: tally.quantileMs(0.5),
  p99: tally.quantileMs(0.99),
  'p99.9': tally.quantileMs(0.999),
});
/** What was asked, where anything was. */
const trafficPerCall = ({ probes, calls }: Tally): Measures => ({
  ...(probes > 0 && { 'probes / call': probes / calls }),
});
const errors = (tally: Tally): Measures => ({ 'errors, %': (1 - tally.successRatio) * 100 });

/** Latency, how even the calls are, and what was asked. */
export function evenness(name: string, title: string, scenario: Play): BalanceScenario {
  return {
    name,
    title,
    async run(strategy, seed, effort) {
      const [tally, world] = await play(strategy, seed, scenario, effort);
      const spread = { 'max / mean': tally.maxOverMean(world.servers.length) };
      return { ...latencies(tally), ...spread, ...trafficPerCall(tally) };
    },
  };
}

/** Prequal's testbed at a share of what its servers are allocated. */
export async function playTestbed(load: number, strategy: Strategy, seed: number, effort?: number): Promise<Tally> {
  const { callsPerSecond, ...options } = prequalTestbed;
  // A client calls each server once in four seconds.
  const scenario = { ...options, callsPerSecond: callsPerSecond(load), warmUpMs: 60_000, lengthMs: 20_000 };
  const [tally] = await play(strategy, seed, scenario, effort);
  return tally;
}

export function testbed(load: number): BalanceScenario {
  const percent = Math.round(load * 100);
  return {
    name: `testbed-${percent}`,
    title: `Prequal's testbed at ${percent} %: machines of two speeds with neighbors, 100 servers, 100 clients`,
    async run(strategy, seed, effort) {
      const tally = await playTestbed(load, strategy, seed, effort);
      return { ...latencies(tally), ...errors(tally), ...trafficPerCall(tally) };
    },
  };
}

const SPEEDS = [2, 1, 0.5];
const failing: Behaviour = { kind: 'fail', afterMs: 1 };
/** One client, 1,000 calls per second of about 20 ms. */
const oneClient: Play = {
  servers: 10,
  callsPerSecond: 1_000,
  serviceTime: lognormal(20, 0.5),
  workers: Number.POSITIVE_INFINITY,
  lengthMs: 50_000,
};

function oneFails(name: string, title: string, stages: readonly StageFactory[]): BalanceScenario {
  return {
    name,
    title,
    async run(strategy, seed, effort) {
      const [tally] = await play(
        strategy,
        seed,
        {
          ...oneClient,
          stages,
          begin: ({ servers }) => {
            (servers[3] as Server).behaviour = () => failing;
          },
        },
        effort,
      );
      return errors(tally);
    },
  };
}

export const equalHundred: BalanceScenario = evenness('equal-100', '100 equal pods of one worker, 100 clients, 90 %', {
  servers: 100,
  clients: 100,
  callsPerSecond: 9_000,
  workers: 1,
  serviceTime: exponential(10),
  warmUpMs: 5_000,
  lengthMs: 10_000,
});

export const twoSeconds: BalanceScenario = {
  name: 'two-seconds',
  title: 'One of 11 pods answers in 2 s for half a minute of one; deadline 1 s',
  run: async (strategy, seed, effort = 1) => errors(await oneServerSlow(strategy, seed, 60_000 * effort)),
};

/** Those of the table in docs/benchmarks-simulations.md. */
export const balanceScenarios: readonly BalanceScenario[] = [
  testbed(0.9),
  testbed(0.7),
  equalHundred,
  evenness('equal-10', '10 equal pods, 10 clients, 80 %', { servers: 10, clients: 10, callsPerSecond: 3_200 }),
  evenness('equal-3', '3 equal pods, 20 clients, 80 %', { servers: 3, clients: 20, callsPerSecond: 960 }),
  evenness('tenth', 'One of 10 pods at a tenth of its speed, 10 clients, 60 %', {
    servers: 10,
    clients: 10,
    callsPerSecond: 2_400,
    behaviour: (index) => ({ kind: 'serve', slower: index === 3 ? 10 : 1 }),
  }),
  evenness('speeds', '20 pods of speeds 2, 1 and 0.5, 10 clients, 70 %', {
    servers: 20,
    clients: 10,
    callsPerSecond: 400 * 0.7 * Array.from({ length: 20 }, (_, i) => SPEEDS[i % 3] as number).reduce((a, b) => a + b),
    behaviour: (index) => ({ kind: 'serve', slower: 1 / (SPEEDS[index % 3] as number) }),
    lengthMs: 15_000,
  }),
  evenness('cold', 'An eleventh pod joins cold, five times slower and warm after 10 s; 10 clients, 70 %', {
    servers: 10,
    clients: 10,
    callsPerSecond: 2_800,
    lengthMs: 30_000,
    begin: (world) => {
      const server = world.addServer();
      const bornMs = world.clock.now();
      server.behaviour = (nowMs) => ({ kind: 'serve', slower: 1 + 4 * Math.max(0, 1 - (nowMs - bornMs) / 10_000) });
      world.list();
    },
  }),
  twoSeconds,
  oneFails('fails', 'One of 10 pods fails at once, no ejection', []),
  oneFails('fails-ejecting', 'One of 10 pods fails at once, with ejection', stagesOf()),
  {
    name: 'well-again',
    title: 'A pod that failed for 10 s works again: its calls against its share, no ejection',
    async run(strategy, seed) {
      const world = new World({ ...usual, ...oneClient, seed, strategy });
      const pod = world.servers[3] as Server;
      await world.start(10_000);
      pod.behaviour = () => failing;
      await world.run(10_000);
      pod.behaviour = () => ({ kind: 'serve' });
      const shares: Record<string, number> = {};
      for (const [fromS, toS] of [
        [0, 10],
        [10, 20],
        [20, 30],
        [30, 40],
      ] as const) {
        const tally = await world.run((toS - fromS) * 1_000);
        shares[`${fromS} to ${toS} s`] = ((tally.perServer.get(pod.address) ?? 0) * world.servers.length) / tally.calls;
      }
      await world.close();
      return shares;
    },
  },
];
