import { describe, expect, it } from 'vitest';
import { subset } from '../../../src/stage/subset.js';
import { addresses, StageFixture } from '../../support/stage-fixture.js';

function subsetOf(
  client: string | { index: number; count: number },
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

  it('keeps exactly as many as asked for, always the same ones', () => {
    const first = subsetOf('client-1', 10, addresses(100));
    expect(first.size).toBe(10);
    expect([...subsetOf('client-1', 10, addresses(100).reverse()).keys()].sort()).toEqual([...first.keys()].sort());
  });

  it('replaces only the endpoint that went', () => {
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
  it.each([
    [7, 20, 3],
    [30, 17, 5],
    [3, 100, 20],
    [11, 11, 4],
  ])('%i clients share %i endpoints, %i each, exactly evenly', (count, endpoints, size) => {
    const load = new Map<string, number>();
    for (let index = 0; index < count; index++) {
      const chosen = subsetOf({ index, count }, size, addresses(endpoints));
      expect(chosen.size).toBeGreaterThanOrEqual(Math.min(size, endpoints));
      const total = [...chosen.values()].reduce((sum, weight) => sum + weight, 0);
      // As long a part of the ring as was asked for; endpoints at its edges count by what is covered of them.
      expect(total).toBeGreaterThan(size - 1e-9);
      for (const [address, weight] of chosen) load.set(address, (load.get(address) ?? 0) + weight / total);
    }
    expect(load.size).toBe(endpoints);
    for (const share of load.values()) expect(share).toBeCloseTo(count / endpoints, 9);
  });

  it('keeps a small set whole', () => {
    expect(subsetOf({ index: 0, count: 2 }, 6, addresses(6)).size).toBe(6);
  });
});

describe('subset options', () => {
  it('are checked', () => {
    for (const bad of [
      { client: 'x' },
      { size: 0, client: 'x' },
      { size: 5 },
      { size: 5, client: '' },
      { size: 5, client: { index: 3, count: 3 } },
      { size: 5, client: { index: 0 } },
    ]) {
      expect(() => subset(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});
