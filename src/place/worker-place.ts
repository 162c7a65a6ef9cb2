import type { Cluster, Worker } from 'node:cluster';
import type { Clock, Timer } from '../runtime/clock.js';
import type { ClientPlace, PlaceSource } from './client-place.js';
import {
  listenToPrimary,
  listenToWorkers,
  tellPrimary,
  type WorkerProcess,
  type WorkersListener,
} from './worker-messages.js';

/**
 * How long a worker waits for an answer before it asks its primary for its place again, in ms: at first, and at most, since a primary
 * without evenkeel never answers.
 */
const ASK_AGAIN_MS = 1_000;
const ASK_AGAIN_AT_MOST_MS = 60_000;
/**
 * The endpoints are divided again when no worker has come or gone for this long, in ms. Until then, a worker that replaces another takes
 * over its part, and all other workers keep their connections.
 */
const SETTLE_MS = 30_000;
/** The endpoints are divided again after this long at the latest, in ms, even if workers keep coming and going. */
const SETTLE_AT_MOST_MS = 4 * SETTLE_MS;

interface PlaceMessage {
  readonly evenkeel: 'place';
  readonly service: string;
}

/** The message of a worker that calls a Service and asks for its place, or that no longer calls the Service. */
interface PlaceRequest extends PlaceMessage {
  /** Which of the worker's balancers asks for a place. */
  readonly balancer: number;
  readonly isLeaving?: boolean;
}

/** The primary's answer: the place of a worker. */
interface PlaceAnswer extends PlaceMessage, ClientPlace {}

const isOurs = (message: unknown): message is PlaceMessage => {
  const { evenkeel, service } = (message ?? {}) as Partial<PlaceMessage>;
  return evenkeel === 'place' && typeof service === 'string';
};

const isPlaceRequest = (message: unknown): message is PlaceRequest =>
  isOurs(message) && typeof (message as Partial<PlaceRequest>).balancer === 'number';

const isAnswer = (message: unknown): message is PlaceAnswer => {
  const { index, count } = (message ?? {}) as Partial<PlaceAnswer>;
  return isOurs(message) && Number.isInteger(index) && Number.isInteger(count) && (index ?? 0) < (count ?? 0);
};

let balancers = 0;

/** The place of this worker among the workers of its cluster that call `service`. The primary assigns it. */
export class WorkerPlace implements PlaceSource {
  place: ClientPlace | undefined;
  readonly #service: string;
  readonly #balancer = balancers++;
  readonly #clock: Clock;
  readonly #process: WorkerProcess;
  #againMs = ASK_AGAIN_MS;
  #timer: Timer | undefined;
  readonly #unlisten: () => void;

  constructor(service: string, clock: Clock, worker: WorkerProcess, changed: () => void) {
    this.#service = service;
    this.#clock = clock;
    this.#process = worker;
    this.#unlisten = listenToPrimary(worker, (message) => {
      if (!isAnswer(message) || message.service !== service) return;
      this.#timer?.cancel();
      this.place = { index: message.index, count: message.count };
      changed();
    });
    this.#requestPlace();
  }

  close(): void {
    this.#timer?.cancel();
    this.#unlisten();
    this.#send({ isLeaving: true });
  }

  #requestPlace(): void {
    this.#timer = this.#clock.timer(() => this.#requestPlace(), this.#againMs);
    this.#againMs = Math.min(2 * this.#againMs, ASK_AGAIN_AT_MOST_MS);
    this.#send({});
  }

  #send(more: Partial<PlaceRequest>): void {
    const message: PlaceRequest = { evenkeel: 'place', service: this.#service, balancer: this.#balancer, ...more };
    tellPrimary(this.#process, message);
  }
}

/** Assigns places to the workers of a cluster, in its primary. */
export class PrimaryPlaces implements WorkersListener {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #services = new Map<string, WorkersOfService>();
  readonly #unlisten: () => void;

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#unlisten = listenToWorkers(cluster, this);
  }

  message(worker: Worker, message: unknown): void {
    if (!isPlaceRequest(message)) return;
    const { service, balancer, isLeaving } = message;
    let workers = this.#services.get(service);
    if (workers === undefined) {
      if (isLeaving) return;
      const forked = Object.keys(this.#cluster.workers ?? {}).length;
      // When no worker calls the Service any longer, its parts are forgotten; the next worker starts with one part per worker again.
      workers = new WorkersOfService(service, Math.max(1, forked), this.#clock, () => this.#services.delete(service));
      this.#services.set(service, workers);
    }
    if (isLeaving) workers.left(worker, balancer);
    else workers.request(worker, balancer);
  }

  gone(worker: Worker): void {
    for (const workers of this.#services.values()) workers.gone(worker);
  }

  close(): void {
    this.#unlisten();
    for (const workers of this.#services.values()) workers.close();
  }
}

/** The workers that call one Service, and the parts of its endpoints that they have. */
class WorkersOfService {
  readonly #service: string;
  readonly #clock: Clock;
  /** Which worker has each part of the endpoints; undefined if that worker is gone or has not asked for its place yet. */
  #parts: (Worker | undefined)[];
  /** Workers that came when every part was taken. Each shares a part with another worker until the endpoints are divided again. */
  readonly #newcomers = new Set<Worker>();
  /** The balancers of each worker that have asked for a place. */
  readonly #balancersOf = new Map<Worker, Set<number>>();
  readonly #sentTo = new Map<Worker, ClientPlace>();
  readonly #deserted: () => void;
  #timer: Timer | undefined;
  #unsettledSinceMs = 0;

  constructor(service: string, count: number, clock: Clock, deserted: () => void) {
    this.#service = service;
    this.#clock = clock;
    this.#deserted = deserted;
    this.#parts = new Array<Worker | undefined>(count).fill(undefined);
    this.#unsettle();
  }

  request(worker: Worker, balancer: number): void {
    const known = this.#balancersOf.get(worker);
    if (known !== undefined) {
      known.add(balancer);
      const place = this.#sentTo.get(worker);
      if (place !== undefined) this.#send(worker, place);
      return;
    }
    this.#balancersOf.set(worker, new Set([balancer]));
    const free = this.#parts.indexOf(undefined);
    if (free === -1) this.#newcomers.add(worker);
    else this.#parts[free] = worker;
    this.#unsettle();
    this.#tell();
  }

  left(worker: Worker, balancer: number): void {
    const known = this.#balancersOf.get(worker);
    known?.delete(balancer);
    if (known?.size === 0) this.gone(worker);
  }

  gone(worker: Worker): void {
    if (!this.#balancersOf.delete(worker)) return;
    this.#sentTo.delete(worker);
    const part = this.#parts.indexOf(worker);
    if (part === -1) this.#newcomers.delete(worker);
    else {
      const [heir] = this.#newcomers;
      if (heir !== undefined) this.#newcomers.delete(heir);
      this.#parts[part] = heir;
    }
    this.#unsettle();
    this.#tell();
  }

  close(): void {
    this.#timer?.cancel();
  }

  #unsettle(): void {
    const nowMs = this.#clock.now();
    if (this.#timer === undefined) this.#unsettledSinceMs = nowMs;
    else this.#timer.cancel();
    const leftMs = this.#unsettledSinceMs + SETTLE_AT_MOST_MS - nowMs;
    this.#timer = this.#clock.timer(() => this.#settle(), Math.min(SETTLE_MS, Math.max(0, leftMs)));
  }

  /**
   * Divides the endpoints again. Each newcomer gets a part of its own, and parts without a worker disappear; workers with the last parts
   * take their numbers.
   */
  #settle(): void {
    this.#timer = undefined;
    const parts = [...this.#parts, ...this.#newcomers];
    this.#newcomers.clear();
    for (let free = parts.indexOf(undefined); free !== -1; free = parts.indexOf(undefined)) {
      const last = parts.pop();
      if (free < parts.length) parts[free] = last;
    }
    if (parts.length === 0) {
      this.#deserted();
      return;
    }
    this.#parts = parts;
    this.#tell();
  }

  #tell(): void {
    const count = this.#parts.length;
    for (const [index, worker] of this.#parts.entries()) this.#assign(worker, { index, count });
    let shared = 0;
    for (const worker of this.#newcomers) this.#assign(worker, { index: shared++ % count, count });
  }

  #assign(worker: Worker | undefined, place: ClientPlace): void {
    if (worker === undefined) return;
    const sent = this.#sentTo.get(worker);
    if (sent?.index === place.index && sent.count === place.count) return;
    this.#sentTo.set(worker, place);
    this.#send(worker, place);
  }

  #send(worker: Worker, place: ClientPlace): void {
    if (!worker.isConnected()) return;
    worker.send({ evenkeel: 'place', service: this.#service, ...place } satisfies PlaceAnswer, () => {});
  }
}
