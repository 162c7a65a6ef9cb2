import type { Rng } from '../../../src/runtime/rng.js';
import { Heap } from './heap.js';
import type { Answer, Asked, Server, SimulatedServer } from './server.js';
import type { VirtualClock } from './virtual-clock.js';

/** What a `SharedServer` can do. */
export interface Machine {
  /** Cores it has been given, whatever it finds at a time. */
  readonly allocated: number;
  /** Work per ms of one core: 1 does 1 ms of work in 1 ms. */
  readonly speed: number;
  /** How many cores it has now, fractions included; asked again every so often. */
  readonly cores: (rng: Rng) => number;
  /** How long that stays so, in ms. */
  readonly coresForMs: (rng: Rng) => number;
}

/** One core that does nothing else. */
export const oneCore: Machine = {
  allocated: 1,
  speed: 1,
  cores: () => 1,
  coresForMs: () => Number.POSITIVE_INFINITY,
};

interface Job {
  /** The server's attained work per job at which it is done. */
  readonly doneAt: number;
  readonly reply: (answer: Answer) => void;
  running: boolean;
}

/**
 * A pod that works on all its requests at the same time, each on one core at most: processor sharing. Its cores change as its
 * neighbours on the node take or leave them. What it does with requests, and its counts, are those of the server it stands for.
 */
export class SharedServer implements SimulatedServer {
  readonly #server: Server;
  readonly #clock: VirtualClock;
  readonly #rng: Rng;
  readonly #workMs: (rng: Rng) => number;
  readonly #machine: Machine;
  #cores: number;
  #usedMs = 0;
  /** Jobs it works on. */
  #running = 0;
  /** Work that a job has got which is here since the beginning. */
  #attained = 0;
  #attainedAtMs = 0;
  /** By `doneAt`. */
  readonly #jobs = new Heap<Job>((a, b) => a.doneAt < b.doneAt);
  /** Of the next event: one that was overtaken does nothing. */
  #turn = 0;

  constructor(server: Server, clock: VirtualClock, rng: Rng, workMs: (rng: Rng) => number, machine: Machine) {
    this.#server = server;
    this.#clock = clock;
    this.#rng = rng;
    this.#workMs = workMs;
    this.#machine = machine;
    this.#cores = machine.cores(rng);
    this.#changeCores();
  }

  get address(): string {
    return this.#server.address;
  }

  get taken(): number {
    return this.#server.taken;
  }

  set taken(taken: number) {
    this.#server.taken = taken;
  }

  get present(): number {
    return this.#server.present;
  }

  get isSilent(): boolean {
    return this.#server.isSilent;
  }

  take(reply: (answer: Answer) => void, asked: Asked = {}): () => void {
    this.#server.begun++;
    const behaviour = this.#server.behaviour(this.#clock.now());
    this.#server.taken++;
    this.#server.present++;
    if (behaviour.kind === 'hang') return () => {};
    if (behaviour.kind !== 'serve') {
      this.#clock.at(this.#clock.now() + behaviour.afterMs, () => {
        this.#server.present--;
        reply(behaviour.kind === 'fail' ? 'error' : 'ok');
      });
      return () => {};
    }
    // Up to here, before there is one more to share with.
    this.#advance();
    this.#running++;
    const workMs = (asked.workMs ?? this.#workMs(this.#rng)) * (behaviour.slower ?? 1);
    const job: Job = { doneAt: this.#attained + workMs, reply, running: true };
    this.#jobs.push(job);
    this.#plan();
    return () => {
      if (!job.running) return;
      this.#advance();
      this.#ended(job);
      this.#plan();
    };
  }

  #ended(job: Job): void {
    job.running = false;
    this.#running--;
    this.#server.present--;
  }

  get cores(): number {
    return this.#machine.allocated;
  }

  get usedMs(): number {
    this.#advance();
    return this.#usedMs;
  }

  /** Work per ms that each of its jobs gets. */
  get #rate(): number {
    return this.#machine.speed * Math.min(1, this.#cores / Math.max(1, this.#running));
  }

  #advance(): void {
    const nowMs = this.#clock.now();
    this.#attained += (nowMs - this.#attainedAtMs) * this.#rate;
    this.#usedMs += (nowMs - this.#attainedAtMs) * Math.min(this.#running, this.#cores);
    this.#attainedAtMs = nowMs;
  }

  #changeCores(): void {
    const forMs = this.#machine.coresForMs(this.#rng);
    if (forMs === Number.POSITIVE_INFINITY) return;
    this.#clock.at(this.#clock.now() + forMs, () => {
      this.#advance();
      this.#cores = this.#machine.cores(this.#rng);
      this.#plan();
      this.#changeCores();
    });
  }

  #plan(): void {
    const turn = ++this.#turn;
    const jobs = this.#jobs;
    for (let job = jobs.first; job !== undefined && !job.running; job = jobs.first) jobs.shift();
    const next = jobs.first;
    if (next === undefined) return;
    this.#clock.at(this.#attainedAtMs + Math.max(0, next.doneAt - this.#attained) / this.#rate, () => {
      if (turn !== this.#turn) return;
      this.#advance();
      jobs.shift();
      this.#ended(next);
      this.#plan();
      next.reply('ok');
    });
  }
}
