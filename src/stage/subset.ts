import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { checkKeys, checkNumber, checkString, optionError } from '../runtime/check.js';
import { hash32, mix32 } from '../runtime/hash.js';
import type { StageFactory } from './stage.js';

/** Options of `subset`. */
export interface SubsetOptions {
  /** The minimum number of endpoints this client connects to. */
  readonly size: number;
  /**
   * A name unique to this client, such as its pod name: each client takes the endpoints that score highest with its name. Or
   * its place among all clients, if known: endpoints are then divided evenly.
   */
  readonly client: string | { readonly index: number; readonly count: number };
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
 * it moves connections. Throws EVENKEEL_OPTION. Sources: Thaler, Ravishankar, IEEE/ACM ToN 6(1), 1998; Finagle's deterministic
 * aperture.
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
  checkKeys('subset.client', client, ['index', 'count']);
  if (client.index === undefined || client.count === undefined) {
    throw optionError('subset.client', 'a name, or an index and a count', client);
  }
  const count = checkNumber('subset.client.count', client.count, 1, { min: 1, integer: true });
  const index = checkNumber('subset.client.index', client.index, 0, { min: 0, max: count - 1, integer: true });
  return () => ({ apply: (set) => byPlace(set, size, index, count) });
};

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
