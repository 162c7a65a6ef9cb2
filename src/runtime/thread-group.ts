import type { Clock, Timer } from './clock.js';
import type { Group, GroupListener } from './group.js';

/** How long to wait for the answers of other members, in ms. */
const JOIN_MS = 100;

/** What of a `BroadcastChannel` is used. */
export interface ThreadChannel {
  onmessage: ((message: never) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
  unref?(): void;
}

/** What threads send each other. */
interface Word {
  readonly from: number;
  readonly does: 'join' | 'here' | 'leave' | 'say';
  /** Undefined: all. */
  readonly to?: number | undefined;
  readonly message?: unknown;
}

function isWord(data: unknown): data is Word {
  const { from, does } = (data ?? {}) as Partial<Word>;
  return Number.isSafeInteger(from) && typeof does === 'string';
}

/** The groups of this thread that are open, to leave when it ends. */
const open = new Set<ThreadGroup>();
const leaveAll = (): void => {
  for (const group of open) group.close();
};

/** A group of threads of one process, in one of them. */
export class ThreadGroup implements Group {
  readonly self: number;
  readonly isOpen = true;
  readonly #channel: ThreadChannel;
  readonly #listener: GroupListener;
  readonly #process: Pick<NodeJS.Process, 'on' | 'off'>;
  readonly #others = new Set<number>();
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #closed = false;

  constructor(
    self: number,
    clock: Clock,
    channel: ThreadChannel,
    thread: Pick<NodeJS.Process, 'on' | 'off'>,
    listener: GroupListener,
  ) {
    this.self = self;
    this.#clock = clock;
    this.#channel = channel;
    this.#listener = listener;
    this.#process = thread;
    channel.onmessage = (message: { readonly data: unknown }) => this.#heard(message.data);
    channel.unref?.();
    this.join();
    // The others need not wait to find out that a thread has ended in order.
    if (open.size === 0) thread.on('exit', leaveAll);
    open.add(this);
  }

  join(): void {
    this.#timer?.cancel();
    this.#others.clear();
    this.#post({ does: 'join' });
    this.#timer = this.#clock.timer(() => this.#listener.joined([...this.#others]), JOIN_MS);
  }

  send(message: object, to?: number): void {
    this.#post({ does: 'say', message, ...(to !== undefined && { to }) });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    open.delete(this);
    if (open.size === 0) this.#process.off('exit', leaveAll);
    this.#post({ does: 'leave' });
    this.#channel.close();
  }

  #post(word: Omit<Word, 'from'>): void {
    this.#channel.postMessage({ from: this.self, ...word } satisfies Word);
  }

  #heard(data: unknown): void {
    if (this.#closed || !isWord(data) || data.from === this.self) return;
    const { from, does, to, message } = data;
    if (does === 'leave') {
      if (this.#others.delete(from)) this.#listener.gone(from);
      return;
    }
    this.#others.add(from);
    if (does === 'join') {
      this.#post({ does: 'here', to: from });
      this.#listener.came(from);
    }
    if (does === 'say' && (to === undefined || to === this.self)) this.#listener.heard(from, message);
  }
}
