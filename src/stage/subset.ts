import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { checkNumber, checkString, optionError } from '../runtime/check.js';
import type { Complete, Filled } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { hash32, mix32 } from '../runtime/hash.js';
import { maglevTable } from '../runtime/maglev.js';
import { numberOption, type OptionTable, optionalNumber, optionTable, requiredOption } from '../runtime/options.js';
import { endpointShares } from './endpoint-shares.js';
import type { StageFactory } from './stage.js';

/** Options of `subset`: how many endpoints this client connects to, and which. Invalid options throw EVENKEEL_OPTION. */
export interface SubsetOptions {
  /** How many endpoints this client connects to at least. @defaultValue 12 */
  readonly size?: number | undefined;
  /**
   * What decides which endpoints this client gets. A name unique to this client, such as its pod name: it takes the endpoints that score
   * highest with its name. Or its place among all clients: endpoints are divided evenly. @see docs/guide/fleets.md
   */
  readonly client: string | SubsetPlace;
}

/** The place of one client among all clients, for `subset`. */
export interface SubsetPlace {
  /** This client's number among all clients, from 0 to below `count`. */
  readonly index: number;
  /** How many clients there are. All clients must use the same number. */
  readonly count: number;
  /**
   * How many long-lived connections each client has. If it is set, the connections of all clients are divided evenly, not the endpoints.
   * Other endpoints, up to `size`, get connections only while the client's own cannot be reached. At most 100,000 for all clients together.
   * @defaultValue none: calls are short @see docs/guide/tcp.md#many-clients-with-one-connection-each
   */
  readonly connections?: number | undefined;
}

type Place = Filled<SubsetPlace, 'connections'>;

const count = { min: 1, integer: true };

export const subsetPlaceTable: OptionTable<Place> = optionTable('subset.client', {
  index: requiredOption((name, value) => required(name, value, 0)),
  count: requiredOption((name, value) => required(name, value, 1)),
  connections: optionalNumber(count),
});

type Settings = Complete<Pick<SubsetOptions, 'size'>> & { readonly client: Place | string };

export const subsetTable: OptionTable<Settings> = optionTable('subset', {
  // How many endpoints a client uses by default is Finagle's number. It leaves a choice even after a few endpoints have failed.
  size: numberOption(12, count),
  client: requiredOption((name, client) => {
    if (client === undefined) throw optionError(name, 'a name of this client, or { index, count }', client);
    return typeof client === 'string' ? checkString(name, client) : placeOf(client);
  }),
});

function required(name: string, value: unknown, min: number): number {
  if (value === undefined) throw optionError(name, 'a number', value);
  return checkNumber(name, value, min, { min, integer: true });
}

function placeOf(client: unknown): Place {
  const place = subsetPlaceTable.resolve(client);
  const { index, count, connections = 0 } = place;
  if (count * connections > MAX_CONNECTIONS) {
    throw optionError('subset.client', `at most ${MAX_CONNECTIONS} connections of all clients`, count * connections);
  }
  if (index >= count) {
    throw optionError('subset.client.index', `a whole number from 0 to ${count - 1}`, index);
  }
  return place;
}

/**
 * Connects to a stable part of a large set: with 1,000 clients and 1,000 pods, a connection from each client to each pod would be a
 * million. Endpoints that are left out are absent: they get no connection. Choose a `size` that leaves enough endpoints after a few
 * failures.
 *
 * By name (rendezvous): when an endpoint goes, only clients that used it take another. How many clients an endpoint gets is left to chance,
 * so its share of the load spreads about 1 / sqrt(clients × size / endpoints) around the mean.
 *
 * By place: every client gets the same amount of endpoints, and every endpoint the same number of clients. An endpoint on the border
 * between two clients counts for each in part (its weight). The load is exactly even if clients send alike. All clients must use the same
 * count.
 *
 * By place, with `connections` (a Maglev table): for clients whose few connections live for hours. Each connection of each client is
 * assigned an endpoint, and endpoints have equal numbers of them, give or take one. When an endpoint comes or goes, connections move until
 * this is restored. Needs a picker that compares connections per weight, as the default for long-lived connections does.
 *
 * Throws EVENKEEL_OPTION for invalid options.
 */
export const subset = (options: SubsetOptions): StageFactory => {
  const { size, client } = subsetTable.resolve(options);
  if (typeof client === 'string') {
    const seed = hash32(client);
    return described(() => ({ apply: (set) => byName(set, size, seed) }), 'subset');
  }
  return described(() => ({ apply: (set) => partOf(set, size, client) }), 'subset');
};

/**
 * The largest number of connections of all clients together. Which client has which endpoint is worked out in a table with one entry for
 * each of these connections; filling one of this size takes about 10 ms.
 */
const MAX_CONNECTIONS = 100_000;
/** The weight of an endpoint that is used only while the client's own endpoints cannot be reached. */
const SPARE_WEIGHT = 0.001;

function partOf(set: EndpointSet, size: number, { index, count, connections }: Place): EndpointSet {
  if (connections === undefined) return byPlace(set, size, index, count);
  return byConnection(set, size, index * connections, connections, count * connections);
}

function byName(set: EndpointSet, size: number, seed: number): EndpointSet {
  if (set.size <= size) return set;
  const chosen = new Set(inOrder(set, (endpoint) => -mix32(hash32(endpointAddress(endpoint)), seed)).slice(0, size));
  return set.filter((entry) => chosen.has(entry));
}

function byPlace(set: EndpointSet, size: number, index: number, count: number): EndpointSet {
  const { size: total } = set;
  const copies = Math.ceil((size * count) / total);
  if (total <= size || copies >= count) return set;
  const sorted = inOrder(set, (endpoint) => hash32(endpointAddress(endpoint)));
  const names = sorted.map(({ endpoint }) => endpointAddress(endpoint));
  const shares = new Map<EndpointEntry, number>();
  for (const [at, share] of endpointShares(names, copies, count, index)) shares.set(sorted[at] as EndpointEntry, share);
  return withShares(set, shares);
}

function byConnection(set: EndpointSet, size: number, from: number, connections: number, all: number): EndpointSet {
  if (set.size === 0) return set;
  const sorted = inOrder(set, () => 0);
  const owners = maglevTable(
    sorted.map(({ endpoint }) => endpointAddress(endpoint)),
    sorted.map(() => 1),
    all,
  );
  const shares = new Map<EndpointEntry, number>();
  for (let connection = from; connection < from + connections; connection++) {
    const entry = sorted[owners[connection] as number] as EndpointEntry;
    shares.set(entry, (shares.get(entry) ?? 0) + 1);
  }
  for (const entry of inOrder(set, (endpoint) => -mix32(hash32(endpointAddress(endpoint)), from))) {
    if (shares.size >= size) break;
    if (!shares.has(entry)) shares.set(entry, SPARE_WEIGHT);
  }
  return withShares(set, shares);
}

/** Returns the entries of the set that have a share, with their weights multiplied by it. */
function withShares(set: EndpointSet, shares: ReadonlyMap<EndpointEntry, number>): EndpointSet {
  return set
    .filter((entry) => shares.has(entry))
    .map((entry) => {
      const share = shares.get(entry) as number;
      return share === 1 ? entry : { ...entry, weight: entry.weight * share };
    });
}

/** Returns the entries sorted by a number derived from their endpoint; entries with equal numbers are sorted by address. */
function inOrder(set: EndpointSet, by: (endpoint: Endpoint) => number): EndpointEntry[] {
  return set.entries
    .map((entry) => ({ entry, rank: by(entry.endpoint), address: endpointAddress(entry.endpoint) }))
    .sort((a, b) => a.rank - b.rank || (a.address < b.address ? -1 : 1))
    .map(({ entry }) => entry);
}
