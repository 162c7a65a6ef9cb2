import cluster from 'node:cluster';
import { hostname } from 'node:os';
import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';
import { type Clock, systemClock, type Timer } from '../runtime/clock.js';
import type { ClientPlace, PlaceSource } from './client-place.js';
import { type ThreadChannel, ThreadPlace } from './thread-place.js';
import { PrimaryPlaces, WorkerPlace } from './worker-place.js';

/** How long a client waits to learn its place before it uses all endpoints, in ms. */
const UNKNOWN_MS = 5_000;

/**
 * The cluster has this property once `placeWorkers` was called. It is a global symbol, because evenkeel may be loaded several times (by
 * Jest, once per test file).
 */
const placed = Symbol.for('evenkeel.places');

/**
 * In the primary of a cluster (`node:cluster`): gives each worker its place among those that call the same Service, which `subset()` in the
 * worker needs. Call it before forking. It opens nothing and needs no permissions. In any other process, and when called again, it does
 * nothing.
 *
 * @example if (cluster.isPrimary) { placeWorkers(); for (let i = 0; i < 4; i++) cluster.fork(); }
 */
export function placeWorkers(): void {
  if (!cluster.isPrimary || !isMainThread || typeof cluster.on !== 'function' || placed in cluster) return;
  Object.defineProperty(cluster, placed, { value: new PrimaryPlaces(cluster, systemClock) });
}

/**
 * Finds this client's place among the Service's pods, the processes that PM2 keeps, the workers of a cluster and the threads of a process,
 * as far as each of these exists.
 */
export class FoundPlace {
  readonly #sources: PlaceSource[] = [];
  /** Limits the wait for the place; undefined if the place was known at once. */
  readonly #timer: Timer | undefined;
  #hasWaited = false;

  /**
   * @param pods The place of this pod among all pods, if known. @param changed Called when the client's place changes, or when the wait for
   * it is over.
   */
  constructor(service: string, pods: ClientPlace | undefined, clock: Clock, changed: () => void) {
    for (const place of [pods, placeOfPm2(process.env)])
      if (place !== undefined) this.#sources.push({ place, close() {} });
    if (cluster.isWorker && !isForkedByPm2(process.env)) {
      this.#sources.push(new WorkerPlace(service, clock, process, changed));
    }
    const channel = new BroadcastChannel(`evenkeel ${service}`) as unknown as ThreadChannel;
    this.#sources.push(new ThreadPlace(service, threadId, clock, channel, changed));
    if (this.place !== undefined) return;
    this.#timer = clock.timer(() => {
      this.#hasWaited = true;
      if (this.place === undefined) changed();
    }, UNKNOWN_MS);
  }

  /** The place of this client; undefined while it is unknown. */
  get place(): ClientPlace | undefined {
    let index = 0;
    let count = 1;
    for (const { place } of this.#sources) {
      if (place === undefined) return undefined;
      index = index * place.count + place.index;
      count *= place.count;
    }
    return { index, count };
  }

  /** Whether the wait for the place is over and the place is still unknown. */
  get isUnknown(): boolean {
    return this.#hasWaited && this.place === undefined;
  }

  close(): void {
    this.#timer?.cancel();
    for (const source of this.#sources) source.close();
  }
}

type Env = Readonly<Record<string, string | undefined>>;

/** Whether this worker's primary is PM2 itself, which numbers its workers but never answers their messages. */
function isForkedByPm2(env: Env): boolean {
  return env.exec_mode === 'cluster_mode' && placeOfPm2(env) !== undefined;
}

/** The place of this process among those that PM2 keeps of the app; undefined without PM2, or if PM2 does not say. */
export function placeOfPm2({ pm_id: id, NODE_APP_INSTANCE: index, instances: count }: Env): ClientPlace | undefined {
  if (id === undefined || !isWhole(index) || !isWhole(count) || Number(index) >= Number(count)) return undefined;
  return { index: Number(index), count: Number(count) };
}

const isWhole = (text: string | undefined): boolean => text !== undefined && /^\d{1,6}$/.test(text);

/** The ordinal of a StatefulSet's pod, from the end of its host name. */
export function ordinalOf(host: string = hostname()): number | undefined {
  const [, digits] = /-(\d{1,6})$/.exec(host.split('.')[0] as string) ?? [];
  return digits === undefined ? undefined : Number(digits);
}
