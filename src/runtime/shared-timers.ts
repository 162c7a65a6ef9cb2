import type { Clock, Timer } from './clock.js';
import { deadline } from './deadline.js';

/** An object that is called when the delay of a timer is over. */
export interface Timed {
  /** The delay is over; the timer is cancelled already. Must not throw. */
  timedOut(): void;
}

/** A running timer; it holds no reference once it has fired or was cancelled. */
export interface SharedTimer {
  /** The delay that the timer was started with, perhaps rounded up, in ms. */
  readonly delayMs: number;
  /** Stops the timer, which will not fire. Idempotent, also after it has fired. */
  cancel(): void;
}

/** This many different delays of timers are exact to the millisecond; others are rounded up by at most a sixteenth. */
const EXACT_DELAYS = 64;
const STEPS_PER_DOUBLING = 16;

/**
 * Timers for many things with the same duration that mostly never fire, such as request deadlines. All timers of one delay share one timer
 * of the clock, so that starting or cancelling one only changes two links in a list.
 *
 * The timers do not keep the process alive: anything with a deadline also has a socket or a place in the waiting room, which does. After a
 * stall of the event loop they wait a moment longer, as `deadline` does.
 */
export class SharedTimers {
  readonly #clock: Clock;
  readonly #queues = new Map<number, Queue>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Starts a timer that fires once, at the delay or up to a sixteenth later. @param delayMs Above 0, in ms. */
  start(delayMs: number, timed: Timed): SharedTimer {
    let queue = this.#queues.get(delayMs);
    if (queue === undefined) {
      const kept = this.#queues.size < EXACT_DELAYS ? delayMs : roundUp(delayMs);
      queue = this.#queues.get(kept);
      if (queue === undefined) queue = this.#open(kept);
    }
    return queue.add(timed);
  }

  /** Starts a timer whose delay is different each time; it fires up to a sixteenth later, and uses up none of the exact delays. */
  startAbout(delayMs: number, timed: Timed): SharedTimer {
    const kept = roundUp(delayMs);
    let queue = this.#queues.get(kept);
    if (queue === undefined) queue = this.#open(kept);
    return queue.add(timed);
  }

  /** How many timers are running, for leak checks. O(n). */
  get running(): number {
    let running = 0;
    for (const queue of this.#queues.values()) running += queue.length;
    return running;
  }

  #open(delayMs: number): Queue {
    const queue = new Queue(this.#clock, delayMs, () => this.#queues.delete(delayMs));
    this.#queues.set(delayMs, queue);
    return queue;
  }

  /** Stops all timers. */
  close(): void {
    for (const queue of this.#queues.values()) queue.close();
    this.#queues.clear();
  }
}

function roundUp(delayMs: number): number {
  const step = 2 ** Math.floor(Math.log2(delayMs)) / STEPS_PER_DOUBLING;
  return Math.ceil(delayMs / step) * step;
}

/** Timers of one delay in the order they were started, which is the order they fire in: a ring with a head. */
class Queue {
  readonly delayMs: number;
  readonly #clock: Clock;
  readonly #emptied: () => void;
  readonly #head: Entry = new Entry(this, 0, undefined);
  /**
   * The timer of the clock for this queue. It runs while anything waits, and possibly longer: stopping it is not worthwhile, because the
   * queue soon fills again.
   */
  #timer: Timer | undefined;

  constructor(clock: Clock, delayMs: number, emptied: () => void) {
    this.#clock = clock;
    this.delayMs = delayMs;
    this.#emptied = emptied;
  }

  add(timed: Timed): Entry {
    const entry = new Entry(this, this.#clock.now() + this.delayMs, timed);
    const head = this.#head;
    entry.previous = head.previous;
    entry.next = head;
    head.previous.next = entry;
    head.previous = entry;
    if (this.#timer === undefined) this.#run();
    return entry;
  }

  get length(): number {
    let length = 0;
    for (let { next } = this.#head; next !== this.#head; { next } = next) length++;
    return length;
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    while (this.#head.next !== this.#head) this.#head.next.cancel();
  }

  #run(): void {
    const { dueMs } = this.#head.next;
    this.#timer = deadline(this.#clock, () => this.#fire(), Math.max(0, dueMs - this.#clock.now()), 1);
  }

  #fire(): void {
    const nowMs = this.#clock.now();
    try {
      for (let { next } = this.#head; next !== this.#head && next.dueMs <= nowMs; { next } = this.#head) {
        const { timed } = next;
        next.cancel();
        timed?.timedOut();
      }
    } finally {
      this.#timer = undefined;
      if (this.#head.next !== this.#head) this.#run();
      else this.#emptied();
    }
  }
}

class Entry implements SharedTimer {
  readonly dueMs: number;
  /** What is called when the delay is over; undefined afterwards, so that keeping the entry does not keep the call. */
  timed: Timed | undefined;
  previous: Entry = this;
  next: Entry = this;
  readonly #queue: Queue;

  constructor(queue: Queue, dueMs: number, timed: Timed | undefined) {
    this.#queue = queue;
    this.dueMs = dueMs;
    this.timed = timed;
  }

  get delayMs(): number {
    return this.#queue.delayMs;
  }

  cancel(): void {
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.previous = this;
    this.next = this;
    this.timed = undefined;
  }
}
