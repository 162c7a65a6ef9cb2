import type { Clock, Timer } from '../runtime/clock.js';
import type { ClientPlace, PlaceSource } from './client-place.js';

/**
 * How long a new thread waits for messages of the others before it takes a part of the endpoints, in ms; threads that start with it may
 * take that long.
 */
const START_MS = 1_000;
/** How often a thread announces itself once it knows of other threads, in ms. */
const SAY_MS = 2_000;
/** A thread that sent no message for this long, in ms, counts as gone, because threads may end without notice. */
const GONE_MS = 10_000;
/** After the number of threads has changed, the endpoints are divided again this much later, in ms. */
const SETTLE_MS = 10_000;

/** The part of Node's `BroadcastChannel` that evenkeel uses. */
export interface ThreadChannel {
  onmessage: ((message: never) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
  unref?(): void;
}

/** The message that threads send each other. */
interface Word {
  readonly service: string;
  readonly thread: number;
  /** Whether the sending thread is new and asks all others to announce themselves. */
  readonly isNew?: boolean;
  readonly isLeaving?: boolean;
}

const isWord = (data: unknown): data is Word => {
  const { service, thread } = (data ?? {}) as Partial<Word>;
  return typeof service === 'string' && Number.isInteger(thread);
};

/** The place of this thread among the threads of its process that call `service`: the rank of its thread number. */
export class ThreadPlace implements PlaceSource {
  place: ClientPlace | undefined;
  readonly #service: string;
  readonly #thread: number;
  readonly #clock: Clock;
  readonly #channel: ThreadChannel;
  readonly #changed: () => void;
  /** When each other thread last sent a message, by its thread number. */
  readonly #others = new Map<number, number>();
  #saying: Timer | undefined;
  #settling: Timer | undefined;

  /** @param thread The thread's number; 0 = the main thread, which counts as the only one until another sends a message. */
  constructor(service: string, thread: number, clock: Clock, channel: ThreadChannel, changed: () => void) {
    this.#service = service;
    this.#thread = thread;
    this.#clock = clock;
    this.#channel = channel;
    this.#changed = changed;
    if (thread === 0) this.place = { index: 0, count: 1 };
    channel.onmessage = (message: { readonly data: unknown }) => this.#receive(message.data);
    channel.unref?.();
    this.#say({ isNew: true });
    this.#settling = clock.timer(() => this.#settle(), START_MS);
  }

  close(): void {
    this.#saying?.cancel();
    this.#settling?.cancel();
    this.#say({ isLeaving: true });
    this.#channel.close();
  }

  #say(more: Partial<Word>): void {
    this.#channel.postMessage({ service: this.#service, thread: this.#thread, ...more } satisfies Word);
  }

  #receive(data: unknown): void {
    if (!isWord(data) || data.service !== this.#service || data.thread === this.#thread) return;
    if (data.isLeaving) {
      if (this.#others.delete(data.thread)) this.#change();
      return;
    }
    const isNew = !this.#others.has(data.thread);
    this.#others.set(data.thread, this.#clock.now());
    if (isNew) this.#change();
    if (data.isNew) this.#say({});
    this.#saying ??= this.#clock.timer(() => this.#sayAgain(), SAY_MS);
  }

  #sayAgain(): void {
    this.#saying = undefined;
    const nowMs = this.#clock.now();
    for (const [thread, receivedAtMs] of this.#others) {
      if (nowMs - receivedAtMs < GONE_MS) continue;
      this.#others.delete(thread);
      this.#change();
    }
    if (this.#others.size === 0) return;
    this.#say({});
    this.#saying = this.#clock.timer(() => this.#sayAgain(), SAY_MS);
  }

  /** A thread has come or gone. The endpoints are divided again later, since others may come or go at about the same time. */
  #change(): void {
    this.#settling ??= this.#clock.timer(() => this.#settle(), SETTLE_MS);
  }

  #settle(): void {
    this.#settling = undefined;
    let index = 0;
    for (const thread of this.#others.keys()) if (thread < this.#thread) index++;
    const count = this.#others.size + 1;
    const { place } = this;
    if (place?.index === index && place.count === count) return;
    this.place = { index, count };
    this.#changed();
  }
}
