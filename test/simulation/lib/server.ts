import type { Priority } from '../../../src/propagation/priority.js';
import type { Rng } from '../../../src/runtime/rng.js';
import type { VirtualClock } from './virtual-clock.js';

/** How long a request takes on an idle server, in ms. */
export type ServiceTime = (rng: Rng) => number;

export const exponential =
  (meanMs: number): ServiceTime =>
  (rng) =>
    -Math.log(1 - rng.next()) * meanMs;

/** Exactly `meanMs`, ± `byMs` evenly. */
export const around =
  (meanMs: number, byMs: number): ServiceTime =>
  (rng) =>
    meanMs + byMs * (2 * rng.next() - 1);

/** Lognormal with this mean; `sigma` is the deviation of the logarithm: 0.5 = mild, 1 = long tail. */
export const lognormal =
  (meanMs: number, sigma: number): ServiceTime =>
  (rng) => {
    const normal = Math.sqrt(-2 * Math.log(1 - rng.next())) * Math.cos(2 * Math.PI * rng.next());
    return meanMs * Math.exp(sigma * normal - (sigma * sigma) / 2);
  };

/** Pareto with this mean; `shape` above 1, the smaller the heavier the tail. Cut at 100 times the mean. */
export const pareto =
  (meanMs: number, shape: number): ServiceTime =>
  (rng) =>
    Math.min(100 * meanMs, (meanMs * (shape - 1)) / shape / (1 - rng.next()) ** (1 / shape));

/** What a server does with requests at some time. `slower` multiplies service times. */
export type Behaviour =
  | { readonly kind: 'serve'; readonly slower?: number }
  | { readonly kind: 'fail'; readonly afterMs: number }
  /** Answers as if it had worked. */
  | { readonly kind: 'pretend'; readonly afterMs: number }
  | { readonly kind: 'hang' };

/** `refused`: it has not begun the request. */
export type Answer = 'ok' | 'error' | 'refused';

/** What a request says about itself. */
export interface Asked {
  /** How long its caller will wait, in ms. */
  readonly deadlineMs?: number;
  readonly priority?: Priority;
  /** How long it takes on an idle server, in ms. @defaultValue the server draws it */
  readonly workMs?: number;
}

/** Stands for the cores of a server without limit, where a utilization is asked for. */
const UNBOUNDED_CORES = 100;

interface Job {
  readonly workMs: number | undefined;
  readonly reply: (answer: Answer) => void;
  /** The caller gave up, and it shall not be begun. */
  dropped: boolean;
  /** The caller gave up. */
  gone: boolean;
}

/** What stands for a pod. */
export interface SimulatedServer {
  readonly address: string;
  /** Requests begun, served or waiting now. */
  taken: number;
  readonly present: number;
  /** Requests it can work on at once at full speed. */
  readonly cores: number;
  /** Work done so far, in ms of one core. */
  readonly usedMs: number;
  /** Whether it answers nobody, probes included. */
  readonly isSilent: boolean;
  /** @returns Tells that the caller gave up. */
  take(reply: (answer: Answer) => void, asked?: Asked): () => void;
}

/** A pod: a fixed number of requests at once, first come first served; the others wait. */
export class Server implements SimulatedServer {
  readonly address: string;
  /** What it does at a time; asked when a request begins to be served. */
  behaviour: (nowMs: number) => Behaviour = () => ({ kind: 'serve' });
  /** Begins what waits also when its caller has left, as ordinary servers do. */
  worksForGone = false;
  /** Requests it has got since it exists. */
  begun = 0;
  /** Requests begun, served or waiting now. */
  taken = 0;
  present = 0;
  /** Requests worked on, and those that were done for callers who had left. */
  done = 0;
  doneForNobody = 0;
  readonly #clock: VirtualClock;
  readonly #rng: Rng;
  readonly #serviceTime: ServiceTime;
  readonly #workers: number;
  readonly #queue: Job[] = [];
  #next = 0;
  #busy = 0;
  #usedMs = 0;
  #usedAtMs = 0;

  constructor(address: string, clock: VirtualClock, rng: Rng, serviceTime: ServiceTime, workers: number) {
    this.address = address;
    this.#clock = clock;
    this.#rng = rng;
    this.#serviceTime = serviceTime;
    this.#workers = workers;
  }

  get cores(): number {
    return Math.min(this.#workers, UNBOUNDED_CORES);
  }

  get usedMs(): number {
    const nowMs = this.#clock.now();
    this.#usedMs += this.#busy * (nowMs - this.#usedAtMs);
    this.#usedAtMs = nowMs;
    return this.#usedMs;
  }

  get isSilent(): boolean {
    return this.behaviour(this.#clock.now()).kind === 'hang';
  }

  /** @returns Tells that the caller gave up: what waits is dropped, what is being served goes on. */
  take(reply: (answer: Answer) => void, { workMs }: Asked = {}): () => void {
    const job: Job = { workMs, reply, dropped: false, gone: false };
    this.begun++;
    this.taken++;
    this.present++;
    if (this.#busy < this.#workers) this.#serve(job);
    else this.#queue.push(job);
    return () => {
      job.gone = true;
      job.dropped = !this.worksForGone;
    };
  }

  #serve(job: Job): void {
    const behaviour = this.behaviour(this.#clock.now());
    if (behaviour.kind === 'hang') {
      // Never answers. It holds no worker: a black hole, not a slow server.
      return;
    }
    // Up to here, before what changes now.
    void this.usedMs;
    this.#busy++;
    const ms =
      behaviour.kind === 'serve'
        ? (job.workMs ?? this.#serviceTime(this.#rng)) * (behaviour.slower ?? 1)
        : behaviour.afterMs;
    this.#clock.at(this.#clock.now() + ms, () => {
      void this.usedMs;
      this.#busy--;
      this.present--;
      this.#takeNext();
      this.done++;
      if (job.gone) this.doneForNobody++;
      job.reply(behaviour.kind === 'fail' ? 'error' : 'ok');
    });
  }

  #takeNext(): void {
    while (this.#next < this.#queue.length && this.#busy < this.#workers) {
      const job = this.#queue[this.#next++] as Job;
      if (job.dropped) this.present--;
      else this.#serve(job);
    }
    // Taken from the front without moving the rest each time.
    if (this.#next > 1_024 && this.#next * 2 > this.#queue.length) {
      this.#queue.splice(0, this.#next);
      this.#next = 0;
    }
  }
}
