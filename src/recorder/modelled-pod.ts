import type { Discipline } from './service-model.js';
import type { VirtualClock } from './virtual-clock.js';

interface Work {
  readonly ms: number;
  readonly done: () => void;
  /** Its caller has given up: it is not begun. */
  isDropped: boolean;
}

/** A pod that works as a `Discipline` says, in virtual time. */
export class ModelledPod {
  readonly key: string;
  /** Calls begun or waiting now, and the total begun. */
  present = 0;
  taken = 0;
  readonly #clock: VirtualClock;
  readonly #discipline: Discipline;
  readonly #waiting: Work[] = [];
  #next = 0;
  #busy = 0;
  // Of a shared pod: how long each call present has been served, in ms, and at which value each is done.
  #served = 0;
  #servedAtMs = 0;
  readonly #running: { readonly until: number; readonly done: () => void }[] = [];
  #turn = 0;

  constructor(key: string, clock: VirtualClock, discipline: Discipline) {
    this.key = key;
    this.#clock = clock;
    this.#discipline = discipline;
  }

  /** Returns a function that drops the call if it has not begun. */
  take(ms: number, done: () => void): () => void {
    this.present++;
    this.taken++;
    const work: Work = { ms, done, isDropped: false };
    if (this.#discipline.kind === 'shared') this.#share(work);
    else if (this.#busy < this.#discipline.places) this.#serve(work);
    else this.#waiting.push(work);
    return () => {
      work.isDropped = true;
    };
  }

  #serve({ ms, done }: Work): void {
    this.#busy++;
    this.#clock.at(this.#clock.now() + ms, () => {
      this.#busy--;
      this.present--;
      this.#serveNext();
      done();
    });
  }

  #serveNext(): void {
    for (;;) {
      const next = this.#waiting[this.#next];
      if (next === undefined) return;
      if (++this.#next > 1_024) {
        this.#waiting.splice(0, this.#next);
        this.#next = 0;
      }
      if (!next.isDropped) {
        this.#serve(next);
        return;
      }
      this.present--;
    }
  }

  #share({ ms, done }: Work): void {
    this.#passed(this.#running.length);
    this.#running.push({ until: this.#served + ms, done });
    this.#schedule();
  }

  /** Accounts for the service that the calls present have received until now. */
  #passed(present: number): void {
    const nowMs = this.#clock.now();
    if (present > 0) this.#served += (nowMs - this.#servedAtMs) * Math.min(1, this.#discipline.places / present);
    this.#servedAtMs = nowMs;
  }

  #schedule(): void {
    const turn = ++this.#turn;
    let first = this.#running[0];
    if (first === undefined) return;
    for (const each of this.#running) if (each.until < first.until) first = each;
    const rate = Math.min(1, this.#discipline.places / this.#running.length);
    const leftMs = Math.max(0, first.until - this.#served) / rate;
    this.#clock.at(this.#clock.now() + leftMs, () => {
      if (turn !== this.#turn) return;
      this.#passed(this.#running.length);
      this.#running.splice(this.#running.indexOf(first), 1);
      this.present--;
      this.#schedule();
      first.done();
    });
  }
}
