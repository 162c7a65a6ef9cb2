import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { checkKeys, checkNumber, checkString, optionError } from '../runtime/check.js';
import { hash32, mix32 } from '../runtime/hash.js';
import { divideSlots } from './slot-table.js';
import type { StageFactory } from './stage.js';

/** Options of `subset`. */
export interface SubsetOptions {
  /** The minimum number of endpoints this client connects to. */
  readonly size: number;
  /**
   * A name unique to this client, such as its pod name: each client takes the endpoints that score highest with its name. Or
   * its place among all clients, if known: endpoints are then divided evenly.
   */
  readonly client: string | SubsetPlace;
}

/** The place of a client among all. */
export interface SubsetPlace {
  /** From 0 to below `count`. */
  readonly index: number;
  /** How many clients there are. All must know the same number. */
  readonly count: number;
  /**
   * How many long-lived connections each client has: the connections of all are then divided evenly, and not the endpoints. Other
   * endpoints, up to `size`, get connections only while the client's own cannot be connected to.
   * @defaultValue none: for short calls
   */
  readonly connections?: number | undefined;
}

/**
 * Connects to a stable part of a large set: with 1,000 clients and 1,000 pods, one connection each would be a million.
 * Endpoints left out are absent: no connection is kept to them. Choose a `size` that leaves enough endpoints after a few
 * failures.
 *
 * By name (rendezvous): when an endpoint goes, only clients that used it take another; how many clients an endpoint gets is
 * left to chance, so its share of the load spreads about 1 / sqrt(clients × size / endpoints) around the mean.
 *
 * By place (deterministic aperture): clients and endpoints lie on one ring; each client covers `size` endpoints' length of it,
 * in whole steps of 1 / count, and an endpoint at the edge of that gets the covered part of its weight. Every point of the ring
 * is covered by the same number of clients, so the load is exactly even; every client must know the same count, and a change of
 * it moves connections. Sources: Thaler, Ravishankar, IEEE/ACM ToN 6(1), 1998; Finagle's deterministic aperture.
 *
 * By place, with `connections` (a Maglev table): for clients whose few connections live for hours. Each connection of all clients
 * has an endpoint, and each endpoint as many as any other, or one less. When an endpoint comes or goes, connections move until
 * that is so again. It takes a picker that looks at connections by weight, as those of long-lived connections do by default.
 *
 * Throws EVENKEEL_OPTION.
 */
export const subset = (options: SubsetOptions): StageFactory => {
  checkKeys('subset', options, ['size', 'client']);
  if (options.size === undefined) throw optionError('subset.size', 'a whole number of at least 1', options.size);
  const size = checkNumber('subset.size', options.size, 1, { min: 1, integer: true });
  const { client } = options;
  if (typeof client === 'string') {
    const seed = hash32(checkString('subset.client', client));
    return () => ({ apply: (set) => byName(set, size, seed) });
  }
  checkKeys('subset.client', client, ['index', 'count', 'connections']);
  if (client.index === undefined || client.count === undefined) {
    throw optionError('subset.client', 'a name, or an index and a count', client);
  }
  const count = checkNumber('subset.client.count', client.count, 1, { min: 1, integer: true });
  const index = checkNumber('subset.client.index', client.index, 0, { min: 0, max: count - 1, integer: true });
  if (client.connections === undefined) return () => ({ apply: (set) => byPlace(set, size, index, count) });
  const connections = checkNumber('subset.client.connections', client.connections, 1, { min: 1, integer: true });
  if (count * connections > MAX_SLOTS) {
    throw optionError('subset.client', `at most ${MAX_SLOTS} connections of all clients`, count * connections);
  }
  return () => ({ apply: (set) => byConnection(set, size, index * connections, connections, count * connections) });
};

/** Connections of all clients: filling the table takes some 10 ms. */
const MAX_SLOTS = 100_000;
/** The weight of an endpoint that is there in case the client's own are not. */
const SPARE_WEIGHT = 0.001;

function byName(set: EndpointSet, size: number, seed: number): EndpointSet {
  if (set.size <= size) return set;
  const chosen = new Set(inOrder(set, (endpoint) => -mix32(hash32(endpointAddress(endpoint)), seed)).slice(0, size));
  return set.filter((entry) => chosen.has(entry));
}

function byPlace(set: EndpointSet, size: number, index: number, count: number): EndpointSet {
  const { size: total } = set;
  const steps = Math.ceil((size * count) / total);
  if (total <= size || steps >= count) return set;
  const ring = inOrder(set, (endpoint) => hash32(endpointAddress(endpoint)));
  // In units of 1 / (count × total), so that all borders are integers.
  const from = index * total;
  const to = from + steps * total;
  const covered = new Map<EndpointEntry, number>();
  ring.forEach((entry, place) => {
    const start = place * count;
    const length =
      overlap(from, to, start, start + count) + overlap(from, to, start + count * total, start + count * total + count);
    if (length > 0) covered.set(entry, length / count);
  });
  return set
    .filter((entry) => covered.has(entry))
    .map((entry) => {
      const share = covered.get(entry) as number;
      return share === 1 ? entry : { ...entry, weight: entry.weight * share };
    });
}

function byConnection(set: EndpointSet, size: number, from: number, connections: number, all: number): EndpointSet {
  if (set.size === 0) return set;
  const sorted = inOrder(set, () => 0);
  const owners = divideSlots(
    sorted.map(({ endpoint }) => endpointAddress(endpoint)),
    all,
  );
  const shares = new Map<EndpointEntry, number>();
  for (let slot = from; slot < from + connections; slot++) {
    const entry = sorted[owners[slot] as number] as EndpointEntry;
    shares.set(entry, (shares.get(entry) ?? 0) + 1);
  }
  for (const entry of inOrder(set, (endpoint) => -mix32(hash32(endpointAddress(endpoint)), from))) {
    if (shares.size >= size) break;
    if (!shares.has(entry)) shares.set(entry, SPARE_WEIGHT);
  }
  return set
    .filter((entry) => shares.has(entry))
    .map((entry) => ({ ...entry, weight: entry.weight * (shares.get(entry) as number) }));
}

function overlap(fromA: number, toA: number, fromB: number, toB: number): number {
  return Math.max(0, Math.min(toA, toB) - Math.max(fromA, fromB));
}

/** Entries by a number of their endpoint; by address where it is the same. */
function inOrder(set: EndpointSet, by: (endpoint: Endpoint) => number): EndpointEntry[] {
  return set.entries
    .map((entry) => ({ entry, rank: by(entry.endpoint), address: endpointAddress(entry.endpoint) }))
    .sort((a, b) => a.rank - b.rank || (a.address < b.address ? -1 : 1))
    .map(({ entry }) => entry);
}
