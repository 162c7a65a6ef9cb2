import type { VirtualClock } from '../../../src/recorder/virtual-clock.js';
import type { Rng } from '../../../src/runtime/rng.js';
import { Heap } from './heap.js';
import type { Answer, SimulatedServer } from './server.js';

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

interface Job {
  /** The server's attained work per job at which it is done. */
  readonly doneAt: number;
  readonly reply: (answer: Answer) => void;
  running: boolean;
}

/**
 * A pod that works on all its requests at the same time, each on one core at most: processor sharing. Its cores change as its
 * neighbours on the node take or leave them.
 */
export class SharedServer implements SimulatedServer {
  readonly address: string;
  taken = 0;
  present = 0;
  readonly #clock: VirtualClock;
  readonly #rng: Rng;
  readonly #workMs: (rng: Rng) => number;
  readonly #machine: Machine;
  #cores: number;
  #usedMs = 0;
  readonly isSilent = false;
  /** Work that a job has got which is here since the beginning. */
  #attained = 0;
  #attainedAtMs = 0;
  /** By `doneAt`. */
  readonly #jobs = new Heap<Job>((a, b) => a.doneAt < b.doneAt);
  /** Of the next event: one that was overtaken does nothing. */
  #turn = 0;

  constructor(address: string, clock: VirtualClock, rng: Rng, workMs: (rng: Rng) => number, machine: Machine) {
    this.address = address;
    this.#clock = clock;
    this.#rng = rng;
    this.#workMs = workMs;
    this.#machine = machine;
    this.#cores = machine.cores(rng);
    this.#changeCores();
  }

  take(reply: (answer: Answer) => void): () => void {
    this.taken++;
    this.present++;
    this.#advance();
    const job: Job = { doneAt: this.#attained + this.#workMs(this.#rng), reply, running: true };
    this.#jobs.push(job);
    this.#plan();
    return () => {
      if (!job.running) return;
      this.#advance();
      job.running = false;
      this.present--;
      this.#plan();
    };
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
    return this.#machine.speed * Math.min(1, this.#cores / Math.max(1, this.present));
  }

  #advance(): void {
    const nowMs = this.#clock.now();
    this.#attained += (nowMs - this.#attainedAtMs) * this.#rate;
    this.#usedMs += (nowMs - this.#attainedAtMs) * Math.min(this.present, this.#cores);
    this.#attainedAtMs = nowMs;
  }

  #changeCores(): void {
    this.#clock.at(this.#clock.now() + this.#machine.coresForMs(this.#rng), () => {
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
      next.running = false;
      this.present--;
      this.#plan();
      next.reply('ok');
    });
  }
}
