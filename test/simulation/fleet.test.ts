import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../src/endpoint/outcome.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { play } from './lib/balance.js';
import { callsInFlight, ideal, inTurn, leastInFlight, stock, withoutReports, withReports } from './lib/contenders.js';
import { fleet, fleetScenarios } from './lib/fleet.js';
import { KeepAliveClient } from './lib/keep-alive-client.js';
import { LENGTH_MS, PROOF, SEEDS } from './lib/proof.js';
import { exponential, type SimulatedServer } from './lib/server.js';
import type { PickedServer, Strategy } from './lib/world.js';

const KEEP_ALIVE_MS = 4_000;
const pods = Array.from({ length: 50 }, (_, index) => ({ address: `10.0.0.${index}` }) as SimulatedServer);

describe('a client with keep-alive connections through kube-proxy', () => {
  function setUp(): { clock: FakeClock; client: KeepAliveClient; call: () => PickedServer } {
    const clock = new FakeClock();
    const client = new KeepAliveClient(clock, seededRng(1), KEEP_ALIVE_MS);
    client.list(pods);
    return { clock, client, call: () => client.pick() as PickedServer };
  }

  it('makes one call at a time per connection, on the first free one', () => {
    const { client, call } = setUp();
    const running = [call(), call(), call()];
    expect(client.connections).toBe(3);
    const [first, second] = running.map(({ handle }) => handle);
    expect(new Set(running.map(({ handle }) => handle)).size).toBe(3);
    for (const one of running.reverse()) one.end(outcomes.success);
    expect([call().handle, call().handle]).toEqual([first, second]);
    expect(client.connections).toBe(3);
  });

  it('draws a random pod for each connection', () => {
    const { call } = setUp();
    const counts = new Map<SimulatedServer, number>();
    for (let opened = 0; opened < 5_000; opened++) {
      const { handle } = call();
      counts.set(handle, (counts.get(handle) ?? 0) + 1);
    }
    // 100 each on average, ± five standard deviations.
    expect(counts.size).toBe(pods.length);
    expect(Math.max(...counts.values())).toBeLessThan(150);
    expect(Math.min(...counts.values())).toBeGreaterThan(50);
  });

  it('closes connections that were idle for long', async () => {
    const { clock, client, call } = setUp();
    const [kept, closed] = [call(), call()];
    kept.end(outcomes.success);
    closed.end(outcomes.success);
    await clock.advanceAsync(KEEP_ALIVE_MS - 1);
    call().end(outcomes.success);
    await clock.advanceAsync(1);
    call();
    expect(client.connections).toBe(1);
  });

  it.each<[string, Outcome, boolean]>([
    ['an error status', outcomes.status, true],
    ['a call that broke off', outcomes.timeout, false],
    ['a caller who left', outcomes.cancelled, false],
  ])('after %s the connection is used again or closed', (_name, outcome, isKept) => {
    const { call } = setUp();
    const first = call();
    first.end(outcome);
    // Of 50 pods, the seed draws another one for the next connection.
    expect(call().handle === first.handle).toBe(isKept);
  });

  it('closes the connections to a pod that leaves when their calls are over', () => {
    const { client, call } = setUp();
    const [leaving, stays] = [call(), call()];
    client.list(pods.filter((pod) => pod !== leaving.handle));
    leaving.end(outcomes.success);
    stays.end(outcomes.success);
    expect(call().handle).toBe(stays.handle);
    expect(client.connections).toBe(1);
    client.list([]);
    expect(client.pick()).toBeUndefined();
  });
});

it('every strategy gets the same calls with the same work', async () => {
  const seen = async (strategy: Strategy): Promise<readonly number[]> => {
    // So many pods that no call waits for another: the latency is the work.
    const [tally] = await play(strategy, 1, fleet(5, 200, 0.001, { warmUpMs: 1_000, lengthMs: 60_000 }));
    return [tally.calls, ...[0.1, 0.5, 0.9].map((share) => Math.round(tally.quantileMs(share)))];
  };
  const calls = await seen(ideal);
  expect(calls[0]).toBeGreaterThan(400);
  for (const strategy of [stock, inTurn]) expect(await seen(strategy)).toEqual(calls);
});

describe.each(SEEDS)('30 pods of one core, 20 clients, 67 % load (seed %i)', (seed) => {
  // What two other simulators show. Kube-proxy strays by 15 % from one draw of connections to another.
  const known: readonly [Strategy, number, number][] = [
    [ideal, 127, 0.1],
    [stock, 340, 0.25],
    [inTurn, 366, 0.12],
    [callsInFlight, 368, 0.12],
  ];
  it.each(known.map(([strategy, p99, within]) => [strategy.name, p99, within, strategy] as const))(
    '%s: a 99th percentile of %i ms',
    async (_name, p99, within, strategy) => {
      const [tally] = await play(strategy, seed, fleet(20, 30, 0.67, { lengthMs: 2 * LENGTH_MS }));
      expect(tally.quantileMs(0.99) / p99).toBeGreaterThan(1 - within);
      expect(tally.quantileMs(0.99) / p99).toBeLessThan(1 + within);
    },
  );
});

describe('the default in a fleet', () => {
  // Half a minute strays further from the mean than ten minutes.
  const effort = PROOF ? 1 : 0.5;
  const strays = PROOF ? 1 : 1.05;

  /** One seed strays by about 15 ms where the bound is 328, so the mean of eight by 5. */
  const seeds = PROOF ? SEEDS : [1, 2, 3, 4, 5, 6, 7, 8];

  /** Means of these seeds, by column. */
  async function measured(name: string, strategy: Strategy): Promise<ReadonlyMap<string, number>> {
    const scenario = fleetScenarios.find((one) => one.name === name);
    const sums = new Map<string, number>();
    for (const seed of seeds) {
      for (const [column, value] of Object.entries((await scenario?.run(strategy, seed, effort)) ?? {})) {
        sums.set(column, (sums.get(column) ?? 0) + value / seeds.length);
      }
    }
    return sums;
  }

  // Kube-proxy comes to 350, 408, 356 and 1,163, one ideal queue to 127, 127, 140 and 153.
  it.each([
    ['fleet-20', 230, 210, undefined, undefined],
    ['fleet-100', 328, 295, undefined, undefined],
    ['fleet-tenth', 225, 210, 548, 480],
    ['ten-replaced', 305, 270, undefined, undefined],
  ] as const)(
    '%s: p99 of at most %i ms, and %i ms with reports',
    async (name, alone, reported, longest, longestReported) => {
      for (const [strategy, p99, p999] of [
        [withoutReports, alone, longest],
        [withReports, reported, longestReported],
      ] as const) {
        const columns = await measured(name, strategy);
        expect(columns.get('p99')).toBeLessThanOrEqual(p99 * strays);
        if (p999 !== undefined) expect(columns.get('p99.9')).toBeLessThanOrEqual(p999 * strays);
        expect(columns.get('max / mean') ?? 1).toBeLessThanOrEqual(1.3);
      }
    },
  );

  it('is as good as leastLoaded where one call in twenty takes 500 times as long as the others', async () => {
    const ours = await measured('two-lengths', withoutReports);
    const least = await measured('two-lengths', leastInFlight);
    expect((ours.get('mean') as number) / (least.get('mean') as number)).toBeLessThan(1.2);
  });

  it.each(['cold-4-of-4', 'cold-1-of-4', 'cold-3-of-12'])(
    "%s: cold pods get at least half of a warm pod's calls within 3 s, and are never without calls for 2 s",
    async (name) => {
      const scenario = fleetScenarios.find((one) => one.name === name);
      for (const seed of SEEDS) {
        const columns = await scenario?.run(withoutReports, seed);
        expect(columns?.['least share']).toBeGreaterThanOrEqual(0.5);
        expect(columns?.['longest gap, s']).toBeLessThanOrEqual(2);
      }
    },
  );
});

describe.each(SEEDS)('the default where 30 pods of one core have 20 clients (seed %i)', (seed) => {
  it('sends a pod that answers without doing the work about its share', async () => {
    const [tally, world] = await play(
      withoutReports,
      seed,
      fleet(20, 30, 0.67, {
        lengthMs: 2 * LENGTH_MS,
        behaviour: (index) => (index === 3 ? { kind: 'pretend', afterMs: 1 } : { kind: 'serve' }),
      }),
    );
    const calls = tally.perServer.get(world.servers[3]?.address ?? '') ?? 0;
    expect(calls / tally.calls).toBeLessThan(0.035);
  });

  it('lets a pod that fails at once fail next to no calls, without ejection', async () => {
    const [tally] = await play(
      withoutReports,
      seed,
      fleet(20, 30, 0.67, {
        lengthMs: 2 * LENGTH_MS,
        behaviour: (index) => (index === 3 ? { kind: 'fail', afterMs: 1 } : { kind: 'serve' }),
      }),
    );
    expect(1 - tally.successRatio).toBeLessThan(0.001);
  });
});

it.each([1, 4, 20])(
  'a pod that claims to have nothing in flight gets at most twice its share: %i calls in flight per client',
  async (inFlight) => {
    const [tally, world] = await play(withoutReports, 1, {
      clients: 20,
      servers: 10,
      callsPerSecond: 20 * inFlight * 50,
      serviceTime: exponential(20),
      workers: Number.POSITIVE_INFINITY,
      networkMs: 0,
      warmUpMs: 5_000,
      lengthMs: 5_000,
      reports: (present, index) => (index === 3 ? 0 : present),
    });
    const calls = tally.perServer.get(world.servers[3]?.address ?? '') ?? 0;
    expect((calls * 10) / tally.calls).toBeLessThan(2);
  },
);
