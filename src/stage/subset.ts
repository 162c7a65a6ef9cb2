import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { notify, type Observer } from '../observe/observer.js';
import type { ClientPlace } from '../place/client-place.js';
import { FoundPlace, ordinalOf } from '../place/found-place.js';
import { checkNumber, checkString, optionError } from '../runtime/check.js';
import type { Complete, Filled } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { hash32, mix32 } from '../runtime/hash.js';
import {
  checkedOption,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionTable,
  requiredOption,
} from '../runtime/options.js';
import { endpointShares } from './endpoint-shares.js';
import { divideSlots } from './slot-table.js';
import type { Stage, StageContext, StageFactory } from './stage.js';

/** Options of `subset`: how many endpoints this client connects to, and which. Invalid options throw EVENKEEL_OPTION. */
export interface SubsetOptions {
  /** How many endpoints this client connects to at least. @defaultValue 12 */
  readonly size?: number | undefined;
  /**
   * What decides which endpoints this client gets. A name unique to this client, such as its pod name: it takes the endpoints that score
   * highest with its name. Or its place among all clients: endpoints are divided evenly. @defaultValue its place among the workers of its
   * cluster, the processes that PM2 keeps of it, and the threads of its process
   */
  readonly client?: string | SubsetPlace | undefined;
}

/** The place of one client among all clients, for `subset`. */
export interface SubsetPlace {
  /**
   * This client's number among all clients, from 0 to below `count`. @defaultValue the ordinal of a StatefulSet's pod, from the host name,
   * and the place of this process or thread in the pod
   */
  readonly index?: number | undefined;
  /** How many clients there are; without `index`, how many pods. All clients must use the same number. */
  readonly count: number;
  /**
   * How many long-lived connections each client has. If it is set, the connections of all clients are divided evenly, not the endpoints.
   * Other endpoints, up to `size`, get connections only while the client's own cannot be reached. At most 100,000 for all clients together.
   * @defaultValue none: calls are short @see docs/guide/tcp.md#many-clients-with-one-connection-each
   */
  readonly connections?: number | undefined;
}

type Place = Filled<SubsetPlace, 'index' | 'connections'>;

const count = { min: 1, integer: true };

export const subsetPlaceTable: OptionTable<Place> = optionTable('subset.client', {
  index: optionalNumber({ min: 0, integer: true }),
  count: requiredOption((name, value) => {
    if (value === undefined) throw optionError('subset.client', 'a name, or a count', {});
    return checkNumber(name, value, 1, count);
  }),
  connections: optionalNumber(count),
});

type Settings = Complete<Pick<SubsetOptions, 'size'>> & { readonly client: Place | string | undefined };

export const subsetTable: OptionTable<Settings> = optionTable('subset', {
  // How many endpoints a client uses by default is Finagle's number. It leaves a choice even after a few endpoints have failed.
  size: numberOption(12, count),
  client: checkedOption<Place | string | undefined>(undefined, (name, client) =>
    typeof client === 'string' ? checkString(name, client) : placeOf(client),
  ),
});

function placeOf(client: unknown): Place {
  const place = subsetPlaceTable.resolve(client);
  const { index, count, connections = 0 } = place;
  if (count * connections > MAX_SLOTS) {
    throw optionError('subset.client', `at most ${MAX_SLOTS} connections of all clients`, count * connections);
  }
  if (index !== undefined && index >= count) {
    throw optionError('subset.client.index', `a whole number from 0 to ${count - 1}`, index);
  }
  return place;
}

/**
 * Connects to a stable part of a large set: with 1,000 clients and 1,000 pods, a connection from each client to each pod would be a
 * million. Endpoints that are left out are absent: they get no connection. Choose a `size` that leaves enough endpoints after a few
 * failures.
 *
 * Without `client`, the workers of a cluster (`node:cluster`), the processes that PM2 keeps of an app, and the threads of a process divide
 * the endpoints among themselves. A single process connects to all. The primary of a cluster must call `placeWorkers()`. While a worker
 * cannot find out its place, it uses `size` random endpoints, and after 5 s all of them, with a warning (`warned`).
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
export const subset = (options: SubsetOptions = {}): StageFactory => {
  const { size, client } = subsetTable.resolve(options);
  if (typeof client === 'string') {
    const seed = hash32(client);
    return described(() => ({ apply: (set) => byName(set, size, seed) }), 'subset');
  }
  if (client === undefined)
    return described((context) => new FoundSubset(size, undefined, undefined, context), 'subset');
  const { index, count, connections } = client;
  if (index === undefined) {
    return described((context) => new FoundSubset(size, count, connections, context), 'subset');
  }
  return described(() => ({ apply: (set) => partOf(set, size, { index, count }, connections) }), 'subset');
};

/** The subset of a client whose options do not say its place, so that it finds its place itself. */
class FoundSubset implements Stage {
  readonly #size: number;
  readonly #connections: number | undefined;
  readonly #observer: Observer;
  readonly #found: FoundPlace;
  /** The seed for choosing random endpoints while the place is not known. */
  readonly #seed: number;
  #hasWarned = false;

  /** @param pods How many pods there are, each with an ordinal; undefined = there is only this pod, or the pods cannot be told apart. */
  constructor(size: number, pods: number | undefined, connections: number | undefined, context: StageContext) {
    this.#size = size;
    this.#connections = connections;
    this.#observer = context.observer;
    this.#seed = Math.floor(context.rng.next() * 2 ** 32);
    const pod = pods === undefined ? undefined : this.#placeOfPod(pods);
    this.#found = new FoundPlace(context.resolver ?? '', pod, context.clock, () => context.invalidate());
  }

  apply(set: EndpointSet): EndpointSet {
    const { place } = this.#found;
    if (place !== undefined) return partOf(set, this.#size, place, this.#connections);
    if (!this.#found.isUnknown) return byName(set, this.#size, this.#seed);
    if (!this.#hasWarned) this.#warn(NO_ANSWER);
    this.#hasWarned = true;
    return set;
  }

  close(): void {
    this.#found.close();
  }

  #placeOfPod(count: number): ClientPlace | undefined {
    const ordinal = ordinalOf();
    if (ordinal === undefined) {
      this.#warn(NO_ORDINAL);
      return undefined;
    }
    if (ordinal >= count) this.#warn(`subset(): the host name says that there are more clients than ${count}`);
    return { index: ordinal % count, count };
  }

  #warn(message: string): void {
    notify(this.#observer, 'warned', { message });
  }
}

const NO_ANSWER =
  'subset() cannot find out which worker of its cluster this is, and uses all endpoints: call placeWorkers() in the primary (under PM2: restart all instances after a change of their number), or pass client';
const NO_ORDINAL =
  'subset() finds no ordinal at the end of the host name, and takes this for the only pod: pass client.index';

/**
 * The largest number of connections of all clients together. Which client has which endpoint is worked out in a table with one slot for
 * each of these connections; filling one of this size takes about 10 ms.
 */
const MAX_SLOTS = 100_000;
/** The weight of an endpoint that is used only while the client's own endpoints cannot be reached. */
const SPARE_WEIGHT = 0.001;

function partOf(
  set: EndpointSet,
  size: number,
  { index, count }: ClientPlace,
  connections: number | undefined,
): EndpointSet {
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
