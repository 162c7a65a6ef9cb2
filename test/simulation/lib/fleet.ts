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
import { KeepAliveClient } from './keep-alive-client.js';
import { around, exponential, lognormal, pareto, type Server } from './server.js';
import { oneCore } from './shared-server.js';
import type { Strategy, World } from './world.js';

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
    // Clients that start at once are up to a tenth slower for some twenty seconds; `run.mjs even` waits for a minute.
    warmUpMs: 30_000,
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

/** Every so often, in ms, each client's process is replaced by a fresh one, one after the other. */
function restartingClients(everyMs: number, clients: number): (world: World) => void {
  return (world) => {
    let next = 0;
    const restartNext = (): void => {
      world.replaceClient(next);
      next = (next + 1) % clients;
      world.clock.at(world.clock.now() + everyMs / clients, restartNext);
    };
    restartNext();
  };
}

/** How long a client is busy or idle at least, in ms. */
const BURST_MS = 500;

/** A client is busy for a tenth of the time, at ten times the rate that it has otherwise; each at times of its own. */
const bursts = {
  peak: 10 / 1.9,
  at: (client: number, nowMs: number): number => {
    // Any mixing of the two numbers will do.
    const mixed = Math.imul(client + 1, 0x9e3779b1) ^ Math.imul(Math.floor(nowMs / BURST_MS) + 1, 0x85ebca6b);
    return (Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> 0) % 10 === 0 ? 10 / 1.9 : 1 / 1.9;
  },
};

/** What may be different in a fleet, by the name on the command line. */
export const shapes: Readonly<Record<string, { readonly title: string; readonly change: (plain: Play) => Play }>> = {
  plain: { title: 'equal pods, equal clients', change: (plain) => plain },
  bursty: { title: 'each client now and then ten times as busy', change: (plain) => ({ ...plain, rate: bursts }) },
  unequal: {
    title: 'the calls of clients follow Zipf: 1, 1/2, 1/3 …',
    change: (plain) => ({ ...plain, share: (client) => 1 / (client + 1) }),
  },
  restarting: {
    title: 'each client restarts every 30 s',
    change: (plain) => ({ ...plain, begin: restartingClients(30_000, plain.clients ?? 1) }),
  },
  replaced: { title: 'a pod is replaced every 5 s', change: (plain) => ({ ...plain, begin: replacing(5_000) }) },
  machines: {
    title: 'a fifth of the pods at 0.6 of the speed',
    change: (plain) => ({
      ...plain,
      callsPerSecond: plain.callsPerSecond * 0.92,
      machine: (index) => ({ ...oneCore, speed: index % 5 === 0 ? 0.6 : 1 }),
    }),
  },
  speeds: {
    title: 'a third of the pods each at 2, 1 and 0.5 of the speed',
    change: (plain) => ({
      ...plain,
      callsPerSecond: (plain.callsPerSecond * 3.5) / 3,
      machine: (index) => ({ ...oneCore, speed: [2, 1, 0.5][index % 3] as number }),
    }),
  },
  constant: { title: 'all calls take 20 ms', change: (plain) => ({ ...plain, serviceTime: around(WORK_MS, 0) }) },
  exponential: { title: 'exponential work', change: (plain) => ({ ...plain, serviceTime: exponential(WORK_MS) }) },
  pareto: { title: 'Pareto work, α = 2', change: (plain) => ({ ...plain, serviceTime: pareto(WORK_MS, 2) }) },
  lengths: {
    title: 'calls of 5 ms, one in ten of 155',
    change: (plain) => ({ ...plain, serviceTime: (rng) => (rng.next() < 0.1 ? 155 : 5) }),
  },
  queue: {
    title: 'pods of 4 workers, first come first served',
    change: ({ machine: _none, ...plain }) => ({ ...plain, workers: 4, callsPerSecond: 4 * plain.callsPerSecond }),
  },
};

/** The way to balance in some of the clients; the others have what users have without it. */
function adopted(percent: number): BalanceScenario {
  return {
    name: `fleet-${percent}-percent`,
    title: `30 pods of one core, 67 %: ${percent} % of 20 clients balance so, the others have kept-alive connections through kube-proxy`,
    async run(strategy, seed, effort) {
      const makeClient: Strategy['makeClient'] = (clock, rng, client) =>
        strategy.seesAll || (client * percent) % 100 < percent
          ? strategy.makeClient?.(clock, rng, client)
          : new KeepAliveClient(clock, rng);
      return latencies((await play({ ...strategy, makeClient }, seed, fleet(20, 30, 0.67), effort))[0]);
    },
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
    'ten-replaced',
    '10 pods, one of which is replaced every 5 s, 20 clients, 67 %',
    fleet(20, 10, 0.67, { begin: replacing(5_000) }),
  ),
  ...Object.entries(shapes)
    .filter(([name]) => name !== 'plain')
    .map(([name, { title, change }]) =>
      latency(`fleet-${name}`, `30 pods, 20 clients, 67 %: ${title}`, change(fleet(20, 30, 0.67))),
    ),
  adopted(25),
  adopted(50),
  adopted(75),
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
