import type { Cluster, Worker } from 'node:cluster';
import type { Clock, Timer } from '../runtime/clock.js';
import type { InFlightSource } from './load-reporter.js';
import type { RequestCount } from './request-count.js';

/** How often workers and the primary exchange their request counts, in ms. */
const SHARE_MS = 50;
/** How often a worker tries to reach its primary until that answers, in ms. A primary without evenkeel never answers. */
const TRY_MS = 1_000;

/**
 * The message between workers and primary. A worker sends its own request count; the primary sends back the sum of the other workers'
 * counts.
 */
interface CountMessage {
  readonly evenkeel: 'in-flight';
  readonly count: number;
}

const isCount = (message: unknown): message is CountMessage => {
  const { evenkeel, count } = (message ?? {}) as Partial<CountMessage>;
  return evenkeel === 'in-flight' && typeof count === 'number' && Number.isFinite(count);
};

type EventSource = { on(event: never, listener: never): unknown; off(event: never, listener: never): unknown };
type EventListener = (...values: never[]) => void;

const listenersOf = new WeakMap<EventSource, Map<string, Set<EventListener>>>();

/**
 * Listens to an event of the cluster or the process. All listeners to one event share a single listener of Node's, because Node warns of a
 * leak from the eleventh on. Returns a function that stops listening.
 */
function listen(source: EventSource, event: string, listener: EventListener): () => void {
  const events = listenersOf.get(source) ?? new Map<string, Set<EventListener>>();
  listenersOf.set(source, events);
  let all = events.get(event) as (Set<EventListener> & { tell?: EventListener }) | undefined;
  if (all === undefined) {
    const added: Set<EventListener> & { tell?: EventListener } = new Set();
    added.tell = (...values) => {
      for (const each of [...added]) each(...values);
    };
    all = added;
    events.set(event, all);
    source.on(event as never, all.tell as never);
  }
  const { tell } = all;
  all.add(listener);
  return () => {
    if (!all.delete(listener) || all.size > 0) return;
    events.delete(event);
    source.off(event as never, tell as never);
  };
}

/** The part of Node's `process` in a worker that evenkeel uses. */
export type WorkerProcess = Pick<NodeJS.Process, 'on' | 'off' | 'send'>;

/**
 * The number of requests of all workers of a cluster, as one worker knows it: its own count plus the others' latest. The workers share one
 * port, so to callers they are one server. Undefined until the primary has answered.
 */
export class WorkerCount implements InFlightSource {
  readonly #count: RequestCount;
  readonly #clock: Clock;
  readonly #process: WorkerProcess;
  readonly #stop: () => void;
  #others: number | undefined;
  #sent: number | undefined;
  #timer: Timer | undefined;
  readonly #onMessage = (message: unknown): void => {
    if (!isCount(message)) return;
    const isFirst = this.#others === undefined;
    this.#others = message.count;
    if (!isFirst) return;
    this.#timer?.cancel();
    this.#timer = this.#clock.timer(() => this.#share(), SHARE_MS);
  };

  constructor(count: RequestCount, clock: Clock, worker: WorkerProcess) {
    this.#count = count;
    this.#clock = clock;
    this.#process = worker;
    this.#stop = listen(worker, 'message', this.#onMessage);
    this.#share();
  }

  get inFlight(): number | undefined {
    return this.#others === undefined ? undefined : this.#others + this.#count.inFlight;
  }

  close(): void {
    this.#timer?.cancel();
    this.#stop();
  }

  #share(): void {
    const { inFlight } = this.#count;
    if (this.#others === undefined || inFlight !== this.#sent) {
      this.#sent = inFlight;
      // `send` passes its error to this callback if the primary is gone, which must not throw.
      this.#process.send?.(
        { evenkeel: 'in-flight', count: inFlight } satisfies CountMessage,
        undefined,
        undefined,
        () => {},
      );
    }
    this.#timer = this.#clock.timer(() => this.#share(), this.#others === undefined ? TRY_MS : SHARE_MS);
  }
}

/** Sends each worker the number of the other workers' requests, in the primary of a cluster. */
export class PrimaryCounts {
  readonly #stops: readonly (() => void)[];
  readonly #clock: Clock;
  /** For each worker: its own request count, and the others' count that it was last sent. */
  readonly #workers = new Map<Worker, { count: number; sent: number | undefined }>();
  #timer: Timer | undefined;
  readonly #onMessage = (worker: Worker, message: unknown): void => {
    if (!isCount(message)) return;
    const known = this.#workers.get(worker);
    if (known === undefined) this.#workers.set(worker, { count: message.count, sent: undefined });
    else known.count = message.count;
    this.#timer ??= this.#clock.timer(() => this.#share(), SHARE_MS);
  };
  readonly #exited = (worker: Worker): void => {
    if (this.#workers.delete(worker)) this.#timer ??= this.#clock.timer(() => this.#share(), SHARE_MS);
  };

  constructor(cluster: Cluster, clock: Clock) {
    this.#clock = clock;
    this.#stops = [listen(cluster, 'message', this.#onMessage), listen(cluster, 'exit', this.#exited)];
  }

  close(): void {
    this.#timer?.cancel();
    for (const stop of this.#stops) stop();
  }

  #share(): void {
    this.#timer = undefined;
    let sum = 0;
    for (const { count } of this.#workers.values()) sum += count;
    for (const [worker, known] of this.#workers) {
      const others = sum - known.count;
      if (others === known.sent || !worker.isConnected()) continue;
      known.sent = others;
      worker.send({ evenkeel: 'in-flight', count: others } satisfies CountMessage, () => {});
    }
  }
}
