import { type BalanceScenario, latencies, type Measures, type Play, play } from './balance.js';
import { fleet, fleetScenarios } from './fleet.js';
import { around, type ServiceTime } from './server.js';

/** Calls by address, in spans of time or of calls; each span belongs to a column of the table. */
class Spans {
  readonly #spans = new Map<string, { readonly column: string; readonly calls: Map<string, number> }>();

  add(column: string, span: string | number, address: string): void {
    const key = `${column} ${span}`;
    const one = this.#spans.get(key) ?? { column, calls: new Map<string, number>() };
    one.calls.set(address, (one.calls.get(address) ?? 0) + 1);
    this.#spans.set(key, one);
  }

  /** The calls of the busiest pod against the mean, as `of` all spans of a column. */
  busiest(pods: number, of: (values: readonly number[]) => number): Measures {
    const columns: Record<string, number[]> = {};
    for (const { column, calls } of this.#spans.values()) {
      columns[column] ??= [];
      columns[column].push((Math.max(...calls.values()) * pods) / sum([...calls.values()]));
    }
    return Object.fromEntries(Object.entries(columns).map(([column, values]) => [column, of(values)]));
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;
const largest = (values: readonly number[]): number => Math.max(...values);

const WINDOW_MS = 10_000;

/** Latency, and max / mean of the calls per pod. @param pods How many there are once it is measured. */
function even(name: string, title: string, scenario: Play, pods: number = scenario.servers): BalanceScenario {
  return {
    name,
    title,
    async run(strategy, seed, effort = 1) {
      const spans = new Spans();
      const lengthMs = (scenario.lengthMs as number) * effort;
      let beginMs = Number.POSITIVE_INFINITY;
      const measured: Play = {
        ...scenario,
        began: (client, address, nowMs) => {
          if (nowMs < beginMs || nowMs >= beginMs + lengthMs) return;
          const window = Math.floor((nowMs - beginMs) / WINDOW_MS);
          spans.add('10 s', window, address);
          spans.add('10 s, one client', `${window} ${client}`, address);
          spans.add('all the time', 0, address);
        },
        begin: (world) => {
          beginMs = world.clock.now();
          scenario.begin?.(world);
        },
      };
      const [tally] = await play(strategy, seed, measured, effort);
      return { ...latencies(tally), ...spans.busiest(pods, mean) };
    },
  };
}

const cell = (clients: number, pods: number, percent: number): BalanceScenario =>
  even(
    `${clients}x${pods}-${percent}`,
    `${pods} pods of one core, ${clients === 1 ? 'one client' : `${clients} clients`}, ${percent} %`,
    fleet(clients, pods, percent / 100),
  );

/** One caller, one call after the other: when it has just started, and the worst when it has run for long. */
function caller(pods: number, callMs: number): BalanceScenario {
  return {
    name: `caller-${pods}-${callMs}ms`,
    title: `One caller, one call of ${callMs} ms after the other, ${pods} pods`,
    async run(strategy, seed, effort) {
      const spans = new Spans();
      let first = 0;
      let later = 0;
      const began = (_client: number, address: string, nowMs: number): void => {
        first++;
        for (const calls of [100, 1_000, 5_000]) if (first <= calls) spans.add(`first ${calls}`, 0, address);
        if (nowMs < 60_000 || later === 10_000) return;
        for (const calls of [100, 1_000]) spans.add(`any ${calls}`, Math.floor(later / calls), address);
        later++;
      };
      const scenario: Play = {
        servers: pods,
        serviceTime: around(callMs, callMs / 10),
        networkMs: 0,
        callers: { count: 1, tries: 1 },
        // The next call comes at once.
        callsPerSecond: 1e6,
        warmUpMs: 60_000,
        lengthMs: 10_500 * callMs,
        began,
      };
      await play(strategy, seed, scenario, effort);
      return spans.busiest(pods, largest);
    },
  };
}

/** Work of which little varies, in ms on average. */
const steady =
  (meanMs: number): ServiceTime =>
  (rng) =>
    meanMs * (0.6 - 0.4 * Math.log(1 - rng.next()));

const HICCUP_MS = 250;

/** What all pods call is now and then slow for a while, so every pod is. A client must not blame the pods that it calls just then. */
const hiccups = even(
  'hiccups-1x5',
  '5 pods that are all four times as slow for an eighth of the time, one client, 20 %',
  fleet(1, 5, 0.2, {
    serviceTime: steady(20),
    behaviour: (_index, nowMs) => {
      const mixed = Math.imul(Math.floor(nowMs / HICCUP_MS) + 1, 0x85ebca6b);
      return { kind: 'serve', slower: (Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> 0) % 8 === 0 ? 4 : 1 };
    },
  }),
);

const ROLL_MS = 700;

/** What made a pod warm is calls, so one that is called less because it is cold stays cold. */
const rolled = even(
  'rolled-1x5',
  'The first 10 s of a rolling update of 5 pods, whose first calls take ten times as long, one client, 20 %',
  fleet(1, 5, 0, {
    callsPerSecond: 100,
    serviceTime: steady(10),
    lengthMs: WINDOW_MS,
    begin: (world) => {
      const fresh = Array.from({ length: 5 }, () => world.addServer());
      fresh.forEach((server, index) => {
        server.behaviour = () => ({ kind: 'serve', slower: 1 + 10 * Math.exp(-server.begun / 10) });
        const listed = [...fresh.slice(0, index + 1), ...world.servers.slice(index + 1, fresh.length)];
        world.clock.at(world.clock.now() + index * ROLL_MS, () => world.list(listed));
      });
    },
  }),
  // Old and new pods, of which five are there at any time; each has a part of its time only.
  5,
);

const inFleet = ['fleet-tenth', 'ten-replaced', 'fleet-unequal', 'fleet-machines', 'fleet-speeds', 'testbed-90'];

/** What the default picker must reach: how even the calls are, one caller, and the latency in fleets. */
export const evenScenarios: readonly BalanceScenario[] = [
  ...[1, 2, 3, 5].flatMap((clients) =>
    [5, 10].flatMap((pods) => [10, 30, 67].map((percent) => cell(clients, pods, percent))),
  ),
  hiccups,
  rolled,
  even(
    'grows-2x3',
    'The first 10 s after a scale-up from 3 to 6 pods, 2 clients, 67 % before',
    fleet(2, 3, 0.67, {
      lengthMs: WINDOW_MS,
      begin: (world) => {
        for (let pod = 0; pod < 3; pod++) world.addServer();
        world.list();
      },
    }),
    6,
  ),
  even(
    'killed-2x6',
    'The first 10 s after one of 6 pods has left, 2 clients, 50 % before',
    fleet(2, 6, 0.5, { lengthMs: WINDOW_MS, begin: (world) => world.list(world.servers.slice(1)) }),
    5,
  ),
  even(
    'start-20x30',
    'The first 20 s after all of 20 clients start at once, 30 pods, 67 %',
    fleet(20, 30, 0.67, { warmUpMs: 0, lengthMs: 2 * WINDOW_MS }),
  ),
  caller(5, 2),
  caller(10, 2),
  caller(5, 1),
  caller(10, 1),
  cell(6, 12, 67),
  cell(20, 5, 67),
  cell(20, 30, 67),
  cell(20, 30, 90),
  cell(100, 30, 67),
  cell(500, 30, 67),
  ...fleetScenarios.filter(({ name }) => inFleet.includes(name)),
];
