import { describe, expect, it } from 'vitest';
import { subset } from '../../../src/stage/subset.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

function subsetOf(
  client: string | { index: number; count: number; connections?: number },
  size: number,
  endpoints: readonly string[],
): Map<string, number> {
  const pods = new StageFixture([subset({ size, client })]);
  pods.set(endpoints);
  return new Map(pods.result.entries.map(({ endpoint, weight }) => [endpoint.address, weight]));
}

describe('subset by name', () => {
  it('keeps a small set whole', () => {
    expect(subsetOf('client-1', 5, addresses(5)).size).toBe(5);
  });

  it('keeps exactly as many as configured, always the same ones', () => {
    const first = subsetOf('client-1', 10, addresses(100));
    expect(first.size).toBe(10);
    expect([...subsetOf('client-1', 10, addresses(100).reverse()).keys()].sort()).toEqual([...first.keys()].sort());
  });

  it('replaces only the endpoint that left', () => {
    const before = subsetOf('client-1', 10, addresses(100));
    const [gone] = before.keys();
    const after = subsetOf(
      'client-1',
      10,
      addresses(100).filter((address) => address !== gone),
    );
    expect(after.size).toBe(10);
    expect([...before.keys()].filter((address) => !after.has(address))).toEqual([gone]);
  });

  it('spreads clients over endpoints as well as chance does', () => {
    const clients = new Map<string, number>();
    for (let client = 0; client < 200; client++) {
      for (const address of subsetOf(`client-${client}`, 10, addresses(100)).keys()) {
        clients.set(address, (clients.get(address) ?? 0) + 1);
      }
    }
    // 20 clients each on average; binomial, so a standard deviation of 4.2: five of them.
    expect(clients.size).toBe(100);
    expect(Math.max(...clients.values())).toBeLessThan(41);
  });
});

describe('subset by place', () => {
  interface Fleet {
    /** What each endpoint gets, in relation to the mean, if clients send alike. */
    readonly shares: readonly number[];
    readonly clients: readonly ReadonlyMap<string, number>[];
    readonly connections: number;
  }

  function fleetOf(count: number, size: number, endpoints: readonly string[]): Fleet {
    const load = new Map(endpoints.map((address) => [address, 0]));
    const clients = Array.from({ length: count }, (_, index) => subsetOf({ index, count }, size, endpoints));
    let connections = 0;
    for (const chosen of clients) {
      connections += chosen.size;
      const total = [...chosen.values()].reduce((sum, weight) => sum + weight, 0);
      for (const [address, weight] of chosen) load.set(address, (load.get(address) as number) + weight / total);
    }
    return { shares: [...load.values()].map((share) => (share * endpoints.length) / count), clients, connections };
  }

  /** Connections that clients open because `before` became `after`. */
  function opened(before: Fleet, after: Fleet): number {
    let count = 0;
    after.clients.forEach((chosen, index) => {
      for (const address of chosen.keys()) if (before.clients[index]?.has(address) !== true) count++;
    });
    return count;
  }

  it.each([
    [8, 100, 12],
    [8, 97, 12],
    [7, 20, 3],
    [30, 17, 5],
    [3, 100, 20],
    [11, 11, 4],
    [3, 7, 3],
    [100, 99, 20],
    [200, 51, 12],
    [64, 300, 20],
  ])('%i clients share %i endpoints, %i each, evenly', (count, endpoints, size) => {
    const { shares, clients, connections } = fleetOf(count, size, addresses(endpoints));
    expect(Math.max(...shares)).toBeLessThanOrEqual(1.03);
    expect(Math.min(...shares)).toBeGreaterThanOrEqual(0.97);
    // Not one too few, unless an endpoint was left for one client twice.
    for (const chosen of clients) expect(chosen.size).toBeGreaterThanOrEqual(size - 1);
    // As many copies of all as it takes, and at most one divided endpoint more per client.
    expect(connections).toBeLessThanOrEqual(Math.ceil((size * count) / endpoints) * endpoints + count);
  });

  it('takes an eighth of the connections with 8 clients and 100 endpoints', () => {
    const { shares, connections } = fleetOf(8, 12, addresses(100));
    for (const share of shares) expect(share).toBeCloseTo(1, 9);
    expect(connections).toBeLessThanOrEqual(108);
  });

  it('moves few connections when an endpoint is replaced, and when a client starts or ends', () => {
    // Each endpoint has 20 connections: a replaced one costs as many.
    const all = addresses(201);
    const fleet = fleetOf(200, 20, all.slice(1));
    expect(opened(fleet, fleetOf(200, 20, all.slice(0, -1)))).toBeLessThanOrEqual(120);
    // Twenty of its own, and about as many again.
    expect(opened(fleet, fleetOf(199, 20, all.slice(1)))).toBeLessThanOrEqual(120);
  });

  it('is the same whatever order the endpoints come in', () => {
    const client = { index: 3, count: 8 };
    expect(subsetOf(client, 12, addresses(100).reverse())).toEqual(
      new Map([...subsetOf(client, 12, addresses(100))].reverse()),
    );
  });

  it('keeps a small set whole', () => {
    expect(subsetOf({ index: 0, count: 2 }, 6, addresses(6)).size).toBe(6);
  });
});

describe('subset by connection', () => {
  /** Connections per endpoint, where each client has as many on one as its weight says. */
  function connectionsOf(
    count: number,
    connections: number,
    endpoints: readonly string[],
    size = 1,
  ): Map<string, number> {
    const load = new Map<string, number>();
    for (let index = 0; index < count; index++) {
      for (const [address, weight] of subsetOf({ index, count, connections }, size, endpoints)) {
        load.set(address, (load.get(address) ?? 0) + Math.floor(weight));
      }
    }
    return load;
  }

  it.each([
    [1_000, 1, 10],
    [200, 3, 7],
    [5, 2, 11],
    [1, 1, 4],
    [12, 1, 1],
  ])('%i clients with %i connections each divide %i endpoints evenly', (count, connections, endpoints) => {
    const load = connectionsOf(count, connections, addresses(endpoints));
    const mean = (count * connections) / endpoints;
    expect([...load.values()].reduce((sum, some) => sum + some, 0)).toBe(count * connections);
    for (const some of load.values()) {
      expect(some).toBeGreaterThanOrEqual(Math.floor(mean));
      expect(some).toBeLessThanOrEqual(Math.ceil(mean));
    }
    expect(load.size).toBe(Math.min(endpoints, count * connections));
  });

  it('is the same whatever order the endpoints come in', () => {
    const client = { index: 17, count: 200, connections: 2 };
    expect(subsetOf(client, 3, addresses(20).reverse())).toEqual(
      new Map([...subsetOf(client, 3, addresses(20))].reverse()),
    );
  });

  it('moves little more than the connections to an endpoint that starts or ends', () => {
    const owner = (index: number, endpoints: readonly string[]): string | undefined =>
      [...subsetOf({ index, count: 1_000, connections: 1 }, 1, endpoints).keys()][0];
    const all = addresses(11);
    let moved = 0;
    for (let index = 0; index < 1_000; index++) if (owner(index, all) !== owner(index, all.slice(1))) moved++;
    // 91 are on the endpoint that goes.
    expect(moved).toBeGreaterThanOrEqual(90);
    expect(moved).toBeLessThanOrEqual(150);
  });

  it('has spare endpoints, which get nothing while its own can be used', () => {
    const weights = [...subsetOf({ index: 3, count: 9, connections: 1 }, 3, addresses(10)).values()].sort();
    expect(weights).toEqual([0.001, 0.001, 1]);
    expect(subsetOf({ index: 3, count: 9, connections: 1 }, 3, addresses(2)).size).toBe(2);
    expect(subsetOf({ index: 3, count: 9, connections: 1 }, 3, []).size).toBe(0);
  });
});

describe('subset options', () => {
  it('are checked', () => {
    for (const bad of [
      undefined,
      {},
      { size: 0, client: 'x' },
      { size: 5.5, client: 'x' },
      { size: 5, client: '' },
      { size: 5, client: {} },
      { size: 5, client: null },
      { size: 5, client: { count: 0 } },
      { size: 5, client: { index: 3, count: 3 } },
      { size: 5, client: { index: 0 } },
      { size: 5, client: { index: 0, count: 3, connections: 0 } },
      { size: 5, client: { index: 0, count: 3, connections: 1.5 } },
      { size: 5, client: { index: 0, count: 1_000, connections: 101 } },
      { size: 5, client: { index: 0, count: 3, connection: 1 } },
    ]) {
      expect(() => subset(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});
