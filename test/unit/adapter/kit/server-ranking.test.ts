import { describe, expect, it } from 'vitest';
import { type ServerRank, ServerRanking } from '../../../../src/adapter/kit/index.js';
import { createEndpoint, EndpointSet } from '../../../../src/index.js';

const endpoints = [1, 2, 3].map((last) => createEndpoint({ address: `10.0.0.${last}`, port: 5432 }));
const set = EndpointSet.of(1, endpoints);

/** Three servers, of which each has the rank given for it. */
class Fixture {
  readonly events: string[] = [];
  ranks: readonly (ServerRank | undefined)[];
  readonly ranking: ServerRanking;

  constructor(...ranks: readonly (ServerRank | undefined)[]) {
    this.ranks = ranks;
    this.ranking = new ServerRanking({
      rankOf: ({ key }) => this.ranks[endpoints.findIndex((endpoint) => endpoint.key === key)],
      observer: {
        ejected: ({ endpoint, reason, cause, durationMs }) =>
          this.events.push(`${endpoint.address} ${reason} (${cause}, ${durationMs})`),
        restored: ({ endpoint, reason }) => this.events.push(`${endpoint.address} ${reason}`),
      },
      intervalMs: 1_000,
    });
  }

  weights(given: EndpointSet = set): number[] {
    return this.ranking.apply(given).entries.map(({ weight }) => weight);
  }
}

const server = (rank: number | undefined, objection = 'it is behind', isConnected = true): ServerRank => ({
  rank,
  objection,
  isConnected,
});

describe('servers ranked by what they report', () => {
  it('those of the best rank are used, and the others stand by', () => {
    expect(new Fixture(server(1), server(0), server(2)).weights()).toEqual([0, 1, 0]);
    expect(new Fixture(server(1), server(1), server(2)).weights()).toEqual([1, 1, 0]);
  });

  it('one without a rank stands by, even if it is the only one', () => {
    const fixture = new Fixture(server(undefined), undefined, undefined);
    expect(fixture.weights()).toEqual([0, 1, 1]);
    expect(fixture.ranking.hasNone).toBe(true);
    fixture.ranks = [server(0), undefined, undefined];
    fixture.weights();
    expect(fixture.ranking.hasNone).toBe(false);
  });

  it('one that has not reported stays as it is', () => {
    expect(new Fixture(server(0), undefined, undefined).weights()).toEqual([1, 1, 1]);
  });

  it('a better one that is not connected, or has no weight, does not keep others from being used', () => {
    expect(new Fixture(server(0, '', false), server(1), undefined).weights()).toEqual([1, 1, 1]);
    const withoutFirst = set.map((entry) => (entry.endpoint === endpoints[0] ? { ...entry, weight: 0 } : entry));
    expect(new Fixture(server(0), server(1), undefined).weights(withoutFirst)).toEqual([0, 1, 1]);
  });

  it('a set whose servers are all used is returned unchanged', () => {
    expect(new Fixture(server(0), server(0), undefined).ranking.apply(set)).toBe(set);
  });

  it('observers are notified once that a server stands by, why, and that it no longer does', () => {
    const fixture = new Fixture(server(1), server(0), undefined);
    fixture.weights();
    fixture.weights();
    fixture.ranks = [server(undefined, 'it is read-only'), server(0), undefined];
    fixture.weights();
    fixture.ranks = [server(0), server(0), undefined];
    fixture.weights();
    expect(fixture.events).toEqual([
      '10.0.0.1 it is behind (server, 1000)',
      '10.0.0.1 it is read-only (server, 1000)',
      '10.0.0.1 no longer: it is read-only',
    ]);
  });

  it('observers are not notified of a server that is gone, and again of one that is back', () => {
    const fixture = new Fixture(server(1), server(0), undefined);
    fixture.weights();
    fixture.weights(set.filter(({ endpoint }) => endpoint !== endpoints[0]));
    expect(fixture.events).toHaveLength(1);
    fixture.weights();
    fixture.ranks = [undefined, server(0), undefined];
    fixture.weights();
    expect(fixture.events).toEqual(Array(2).fill('10.0.0.1 it is behind (server, 1000)'));
  });
});
