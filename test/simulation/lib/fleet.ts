import {
  type BalanceScenario,
  equalHundred,
  evenness,
  latencies,
  type Measures,
  type Play,
  play,
  testbed,
  twoSeconds,
} from './balance.js';
import { lognormal, type Server } from './server.js';
import { oneCore } from './shared-server.js';
import type { World } from './world.js';

/** Mean work of a call, in ms. */
const WORK_MS = 20;

/** Pods of one core each, which their requests share; work with a long tail. `load`: the share of all cores that is used. */
export function fleet(clients: number, pods: number, load: number, more: Partial<Play> = {}): Play {
  return {
    clients,
    servers: pods,
    callsPerSecond: (load * pods * 1_000) / WORK_MS,
    serviceTime: lognormal(WORK_MS, 1),
    machine: () => oneCore,
    networkMs: 0,
    warmUpMs: 20_000,
    lengthMs: 60_000,
    ...more,
  };
}

/** Every so often, in ms, the oldest pod leaves and another comes. */
function replacing(everyMs: number): (world: World) => void {
  return (world) => {
    const listed = [...world.servers];
    const replaceNext = (): void => {
      listed.shift();
      listed.push(world.addServer());
      world.list(listed);
      world.clock.at(world.clock.now() + everyMs, replaceNext);
    };
    world.clock.at(world.clock.now() + everyMs, replaceNext);
  };
}

/** How long the first answers of a cold pod take, in ms. */
const COLD_MS = [150, 126, 102, 78, 54, 30];
/** Until then a cold pod may have less than its share, in ms. */
const WARMING_MS = 3_000;
const AFTER_WARMING_MS = 10_000;

/** 20 clients, 60 calls per second in all; some pods are replaced at once by pods whose first answers are slow. */
function cold(coldPods: number, pods: number): BalanceScenario {
  return {
    name: `cold-${coldPods}-of-${pods}`,
    title: `${coldPods} of ${pods} pods are replaced by cold ones: their share from 3 s to 13 s, and their longest time without a call`,
    async run(strategy, seed) {
      const cameMs = new Map<Server, number[]>();
      const { clients, ...rest } = fleet(20, pods, 0, { callsPerSecond: 60, serviceTime: lognormal(5, 0.5) });
      const begin = (world: World): void => {
        const fresh = Array.from({ length: coldPods }, () => world.addServer());
        for (const server of fresh) {
          const times = [world.clock.now()];
          cameMs.set(server, times);
          server.behaviour = (nowMs) => {
            // Asked again if somebody looks whether it answers at all.
            if (server.begun === times.length) times.push(nowMs);
            const afterMs = COLD_MS[server.begun - 1];
            return afterMs === undefined ? { kind: 'serve' } : { kind: 'pretend', afterMs };
          };
        }
        world.list([...world.servers.slice(coldPods, pods), ...fresh]);
      };
      const lengthMs = WARMING_MS + AFTER_WARMING_MS;
      const [tally, world] = await play(strategy, seed, { ...rest, clients: clients as number, begin, lengthMs });
      const beganMs = tally.startMs;
      const late = [...cameMs.values()].map(
        (times) => times.filter((at) => at >= beganMs + WARMING_MS && at < beganMs + lengthMs).length,
      );
      const gaps = [...cameMs.values()].map((times) =>
        longestGap([...times.filter((at) => at < beganMs + lengthMs), beganMs + lengthMs]),
      );
      const warm = world.servers.slice(coldPods, pods).map(({ address }) => tally.perServer.get(address) ?? 0);
      // Against a warm pod's calls in the same time; if there is none, against the mean.
      const usual = warm.length > 0 ? (mean(warm) * AFTER_WARMING_MS) / lengthMs : mean(late);
      return { 'least share': Math.min(...late) / usual, 'longest gap, s': Math.max(...gaps) / 1_000 };
    },
  };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const longestGap = (times: readonly number[]): number =>
  Math.max(...times.slice(1).map((at, index) => at - (times[index] as number)));

/** Latencies alone: where pods come and go, calls per pod say nothing. */
function latency(name: string, title: string, scenario: Play): BalanceScenario {
  return {
    name,
    title,
    run: async (strategy, seed, effort): Promise<Measures> =>
      latencies((await play(strategy, seed, scenario, effort))[0]),
  };
}

/** What a fleet must reach: a table each, and every contender meets the same calls. */
export const fleetScenarios: readonly BalanceScenario[] = [
  evenness('fleet-20', '30 pods of one core, 20 clients, 67 %', fleet(20, 30, 0.67)),
  evenness('fleet-100', '30 pods of one core, 100 clients, 67 %', fleet(100, 30, 0.67)),
  evenness('fleet-500', '30 pods of one core, 500 clients, 67 %', fleet(500, 30, 0.67, { warmUpMs: 40_000 })),
  evenness(
    'fleet-tenth',
    'One of 30 pods at a tenth of its speed, 20 clients, 60 %',
    fleet(20, 30, 0.6, { behaviour: (index) => ({ kind: 'serve', slower: index === 3 ? 10 : 1 }) }),
  ),
  latency(
    'fleet-replaced',
    '10 pods, one of which is replaced every 5 s, 20 clients, 67 %',
    fleet(20, 10, 0.67, { begin: replacing(5_000) }),
  ),
  testbed(0.9),
  equalHundred,
  cold(4, 4),
  cold(1, 4),
  cold(3, 12),
  latency('two-lengths', '95 % of the calls take 1 ms, the others 500; one client, 10 pods of 4 workers, 80 %', {
    servers: 10,
    callsPerSecond: (0.8 * 10 * 4 * 1_000) / (0.95 * 1 + 0.05 * 500),
    serviceTime: (rng) => (rng.next() < 0.05 ? 500 : 1),
    lengthMs: 60_000,
  }),
  evenness('six-at-a-third', '6 of 10 pods at a third of their speed, 20 clients, 60 %', {
    servers: 10,
    clients: 20,
    callsPerSecond: (0.6 * (4 + 6 / 3) * 4 * 1_000) / WORK_MS,
    serviceTime: lognormal(WORK_MS, 0.5),
    behaviour: (index) => ({ kind: 'serve', slower: index < 6 ? 3 : 1 }),
  }),
  twoSeconds,
];
