import { describe, expect, it } from 'vitest';
import { Placements } from '../../src/balancer/placements.js';
import { type PlacingOptions, resolvePlacingOptions } from '../../src/balancer/placing-options.js';
import type { EndpointInit } from '../../src/endpoint/endpoint.js';
import { inFlight } from '../../src/load/in-flight.js';
import { shortestExpectedDelay } from '../../src/picker/least-loaded.js';
import { conditions } from '../../src/stage/conditions.js';
import { settle } from '../../src/testing/fake-clock.js';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { BalancerFixture } from '../support/balancer-fixture.js';
import { PROOF } from './lib/proof.js';

const SOCKETS = 1_000;
const PODS = 10;
const DRAIN_MS = 30_000;
const STEP_MS = 100;

/** What a client does with its connections. */
type Manner = 'closes' | 'listens' | 'ignores';

/** One client of many, with its part of the connections; all share the time. */
class Client {
  readonly fixture: BalancerFixture;
  readonly #placements: Placements;
  readonly #manner: Manner;
  /** When connections came, and where. */
  readonly arrivals: { readonly atMs: number; readonly address: string }[] = [];
  cuts = 0;

  constructor(seed: number, manner: Manner, options: PlacingOptions<never>) {
    this.#manner = manner;
    this.fixture = new BalancerFixture({
      // As evenkeel/tcp and evenkeel/ws have it. With leastLoaded, 12 of 1,000 connections of ten clients move twice.
      picker: shortestExpectedDelay(),
      load: inFlight(),
      stages: [conditions()],
      rng: seededRng(seed),
      pool: { drainTimeoutMs: DRAIN_MS },
    });
    const { clock, balancer } = this.fixture;
    const all = { closeLeaving: manner === 'closes', ...options };
    const resolved = resolvePlacingOptions(all, DRAIN_MS);
    this.#placements = new Placements({ balancer, clock, rng: seededRng(seed + 1_000), options: resolved });
  }

  /** Opens one; it comes back when it is closed. */
  connect(): void {
    const { balancer, clock } = this.fixture;
    const lease = balancer.pick();
    if (lease === undefined) throw new Error('nowhere to go');
    this.arrivals.push({ atMs: clock.now(), address: lease.endpoint.address });
    const end = (): void => {
      release();
      lease.end({ kind: 'success' });
      // As soon as the picker knows what the resolver said in this turn.
      clock.timer(() => this.connect(), 1);
    };
    const release = this.#placements.hold(lease, {
      leave: () => {
        if (this.#manner === 'listens') end();
        return this.#manner === 'listens';
      },
      finish: end,
      cut: () => {
        this.cuts++;
        end();
      },
    });
  }

  counts(): ReadonlyMap<string, number> {
    const { endpoints } = this.fixture.balancer.snapshot();
    return new Map(endpoints.map(({ address, inFlight }) => [address, inFlight]));
  }
}

class Cluster {
  readonly clients: readonly Client[];

  constructor(count: number, mannerOf: (index: number) => Manner, options: PlacingOptions<never> = {}) {
    this.clients = Array.from({ length: count }, (_, index) => new Client(index + 1, mannerOf(index), options));
  }

  async publish(endpoints: readonly EndpointInit[]): Promise<void> {
    for (const { fixture } of this.clients) await fixture.publish(...endpoints);
  }

  connectAll(): void {
    for (let made = 0; made < SOCKETS; made++) (this.clients[made % this.clients.length] as Client).connect();
  }

  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= STEP_MS) {
      for (const { fixture } of this.clients) fixture.clock.advance(STEP_MS);
      await settle();
    }
  }

  counts(addresses: readonly string[]): number[] {
    return addresses.map((address) =>
      this.clients.reduce((sum, client) => sum + (client.counts().get(`${address}:80`) ?? 0), 0),
    );
  }
}

const pod = (index: number): string => `10.0.0.${index + 1}`;
const endpoint = (address: string): EndpointInit => ({ address, port: 80 });
const leaving = (address: string): EndpointInit => ({
  ...endpoint(address),
  conditions: { ready: false, serving: true, terminating: true },
});
const maxToMean = (counts: readonly number[]): number =>
  Math.max(...counts) / (counts.reduce((sum, count) => sum + count, 0) / counts.length);

const old = Array.from({ length: PODS }, (_, index) => pod(index));
const fresh = old.map((_, index) => pod(index + 100));
const manners: readonly Manner[] = ['closes', 'listens', 'ignores'];

describe(`${SOCKETS} connections over ${PODS} pods`, () => {
  it.each(PROOF ? [1, 10, 100, 1_000] : [1, 10, 100])('through a rolling update, of %d clients', async (clients) => {
    const cluster = new Cluster(clients, (index) => (clients === 1 ? 'closes' : (manners[index % 3] as Manner)));
    let present = old.map(endpoint);
    await cluster.publish(present);
    cluster.connectAll();
    const begun = cluster.clients.map(({ arrivals }) => arrivals.length);
    for (const [index, address] of old.entries()) {
      present = present.filter((one) => one.address !== address);
      present.push(endpoint(fresh[index] as string));
      await cluster.publish([...present, leaving(address)]);
      await cluster.pass(DRAIN_MS + STEP_MS);
      expect(cluster.counts([address])).toEqual([0]);
      await cluster.publish(present);
    }
    const arrivals = cluster.clients.flatMap((client, index) => client.arrivals.slice(begun[index]));
    const counts = cluster.counts(fresh);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(SOCKETS);
    expect(cluster.clients.reduce((sum, { cuts }) => sum + cuts, 0)).toBe(0);
    // Arrivals in any second, against the mean of the whole rollout.
    const bySecond = new Map<number, number>();
    for (const { atMs } of arrivals) {
      const second = Math.floor(atMs / 1_000);
      bySecond.set(second, (bySecond.get(second) ?? 0) + 1);
    }
    const seconds = (PODS * (DRAIN_MS + STEP_MS)) / 1_000;
    expect(Math.max(...bySecond.values())).toBeLessThanOrEqual((5 * arrivals.length) / seconds);
    if (clients <= 10) {
      // Each knows enough of its own connections: even, and none moves twice.
      expect(maxToMean(counts)).toBeLessThanOrEqual(1.1);
      expect(arrivals).toHaveLength(SOCKETS);
    } else if (clients === 100) expect(maxToMean(counts)).toBeLessThanOrEqual(1.5);
  });

  it.each([1, 10, 100])(
    'through a scale-out to twice the pods at a quarter a minute, of %d clients',
    async (clients) => {
      const cluster = new Cluster(clients, () => 'ignores', { rebalance: { ratioPerMinute: 0.25 } });
      await cluster.publish(old.slice(0, PODS / 2).map(endpoint));
      cluster.connectAll();
      const begun = cluster.clients.map(({ arrivals }) => arrivals.length);
      await cluster.publish(old.map(endpoint));
      await cluster.pass(180_000);
      const counts = cluster.counts(old);
      const moved = cluster.clients.reduce(
        (sum, { arrivals }, index) => sum + arrivals.length - (begun[index] ?? 0),
        0,
      );
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(SOCKETS);
      expect(maxToMean(counts)).toBeLessThanOrEqual(1.2);
      // From 200 on each of five to 120; small clients have to go to whole numbers.
      expect(moved).toBeLessThanOrEqual(clients === 100 ? 500 : 440);
      const after = counts;
      await cluster.pass(180_000);
      if (clients < 100) expect(cluster.counts(old)).toEqual(after);
    },
  );
});
