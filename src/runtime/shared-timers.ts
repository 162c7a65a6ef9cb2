import type { Clock, Timer } from './clock.js';
import { deadline } from './deadline.js';

/** Something that wants to be called when the time of a timer is over. */
export interface Timed {
  /** Called when the time is over. Must not throw. The timer need not be cancelled any more. */
  timedOut(): void;
}

/** A running timer. When it has fired or was cancelled, it no longer keeps its `Timed` object in memory. */
export interface SharedTimer {
  /** The time with which the timer was started, in ms, possibly rounded up. */
  readonly delayMs: number;
  /** Stops the timer, so that it does not fire. Further calls have no effect, nor does a call after it has fired. */
  cancel(): void;
}

/**
 * Times are kept exactly while timers with fewer than 64 different times are running. Further times are rounded up by at most a sixteenth,
 * so that there are never too many different ones.
 */
const EXACT_DELAYS = 64;
const STEPS_PER_DOUBLING = 16;

/**
 * Timers that are very cheap to start and to cancel, for things that have the same time limit and mostly end before it, such as requests.
 * All timers with the same time share one timer of the clock, so starting or cancelling one only changes a linked list.
 *
 * The timers do not keep the process alive: whatever has a time limit also has a connection or a place in the waiting room, which keeps it
 * alive. After the event loop was blocked, they wait a moment longer, as `deadline` does.
 */
export class SharedTimers {
  readonly #clock: Clock;
  readonly #queues = new Map<number, Queue>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Starts a timer that fires once after `delayMs`, or up to a sixteenth of that later. @param delayMs Above 0, in ms. */
  start(delayMs: number, timed: Timed): SharedTimer {
    let queue = this.#queues.get(delayMs);
    if (queue === undefined) {
      const kept = this.#queues.size < EXACT_DELAYS ? delayMs : roundUp(delayMs);
      queue = this.#queues.get(kept);
      if (queue === undefined) queue = this.#open(kept);
    }
    return queue.add(timed);
  }

  /**
   * Starts a timer whose time is different in every call. The time is always rounded up, by at most a sixteenth: there would soon be
   * 64 exact ones otherwise.
   */
  startAbout(delayMs: number, timed: Timed): SharedTimer {
    const kept = roundUp(delayMs);
    let queue = this.#queues.get(kept);
    if (queue === undefined) queue = this.#open(kept);
    return queue.add(timed);
  }

  /** How many timers are running; tests use this to find leaks. It counts them one by one, so it is slow. */
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

/**
 * All timers with the same time, in the order in which they were started, which is also the order in which they fire. It is a circular
 * linked list.
 */
class Queue {
  readonly delayMs: number;
  readonly #clock: Clock;
  readonly #emptied: () => void;
  readonly #head: Entry = new Entry(this, 0, undefined);
  /** The timer of the clock for this list. It is not stopped when the list becomes empty, because new timers usually follow soon. */
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
  /** What is called when the time is over; undefined afterwards, so that it does not stay in memory as long as the timer. */
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
