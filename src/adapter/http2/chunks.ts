/** How much of a response may wait for its reader before Node's stream is paused, in bytes: as much as in Node's streams. */
const ROOM_BYTES = 16_384;

/** A chunk of a response is copied if it is a view of more than this many times its own size. */
const MAX_WASTE = 8;

type Result = IteratorResult<Uint8Array, undefined>;

/**
 * Returns a chunk that can wait for its reader. Node's chunks are views of everything that was read from the connection at once, which a few
 * bytes would keep in memory.
 */
export function compact(chunk: Buffer): Buffer {
  return chunk.buffer.byteLength > MAX_WASTE * chunk.length ? Buffer.from(chunk) : chunk;
}

/** What the reader of a response does, as far as others have to react. */
export interface ReaderEvents {
  /** There is room again after `push` returned false. */
  wanted(): void;
  /** The reader has taken the last chunk of a complete response. */
  wasRead(): void;
  /** The reader stopped before the end. */
  left(): void;
}

/**
 * The body of a response, for one reader that uses `for await`. What the reader has not asked for yet waits here.
 *
 * Calls of `next` are settled in their order. If the response fails, one of them rejects, and chunks that wait are dropped, as with Node's
 * streams. `return` gives the response up, even while calls of `next` wait.
 */
export class Chunks implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #events: ReaderEvents;
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isFull = false;
  /** Settles the calls of `next` that wait, oldest first. While there are any, no chunk waits. */
  readonly #waiting: ((result: Result | Promise<Result>) => void)[] = [];
  /** Undefined while more may arrive, null after the last chunk. If the response failed, the error until the reader gets it. */
  #end: Error | null | undefined = undefined;
  /** Whether the reader has taken all chunks or the error, or has left. */
  #isOver = false;

  constructor(events: ReaderEvents) {
    this.#events = events;
  }

  /** A chunk has arrived. Returns false if there is no room for another. */
  push(chunk: Uint8Array): boolean {
    const settle = this.#waiting.shift();
    if (settle !== undefined) settle({ value: chunk, done: false });
    else {
      this.#chunks.push(chunk);
      this.#bytes += chunk.length;
      this.#isFull = this.#bytes >= ROOM_BYTES;
    }
    return !this.#isFull;
  }

  /** The last chunk has arrived. */
  complete(): void {
    this.#end = null;
    this.#settleAll();
  }

  /** The stream has closed, maybe with an error. A reader that has not got to the end gets that error, or another. */
  close(error: Error | undefined): void {
    if (this.#isOver) return;
    this.#end = error ?? prematureClose();
    this.#chunks.length = 0;
    this.#settleAll();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Result> {
    const chunk = this.#chunks.shift();
    if (chunk !== undefined) {
      this.#took(chunk);
      return Promise.resolve({ value: chunk, done: false });
    }
    const end = this.#end;
    if (end === undefined) return new Promise((settle) => this.#waiting.push(settle));
    if (end === null) {
      this.#read();
      return Promise.resolve({ value: undefined, done: true });
    }
    this.#end = null;
    this.#isOver = true;
    return Promise.reject(end);
  }

  return(): Promise<Result> {
    // A stream that failed is destroyed already.
    const hasLeft = !this.#isOver && !this.#end;
    this.#isOver = true;
    this.#end = null;
    this.#chunks.length = 0;
    this.#settleAll();
    if (hasLeft) this.#events.left();
    return Promise.resolve({ value: undefined, done: true });
  }

  #took({ length }: Uint8Array): void {
    this.#bytes -= length;
    if (this.#end === null && this.#chunks.length === 0) this.#read();
    else if (this.#isFull && this.#bytes < ROOM_BYTES) {
      this.#isFull = false;
      this.#events.wanted();
    }
  }

  #read(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.wasRead();
  }

  /** Settles the calls of `next` that wait, now that nothing more arrives. */
  #settleAll(): void {
    for (const settle of this.#waiting.splice(0)) settle(this.next());
  }
}

/** The error that readers of Node's streams get when a stream closes without an error before its end. */
function prematureClose(): Error {
  return Object.assign(new Error('Premature close'), { code: 'ERR_STREAM_PREMATURE_CLOSE' });
}
