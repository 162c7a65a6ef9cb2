import { ByteBuffer, decodeText } from './byte-buffer.js';

/** W7: a longer line is not a valid event. The API server stores no object of more than 1.5 MiB. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;

const NEWLINE = 10;

/** What a stream said was no line we can use. */
export class LineError extends Error {
  override readonly name = 'LineError';
}

/**
 * Cuts a stream of bytes into lines. A line is not a chunk: one may come in many pieces, cut anywhere, also inside a
 * UTF-8 character, and one piece may end one line and begin another.
 */
export class LineReader {
  readonly #onLine: (line: string) => void;
  readonly #maxBytes: number;
  /** The beginning of a line whose end has not come. */
  readonly #rest = new ByteBuffer();
  /** Whether something was thrown: what follows may be the rest of a line whose beginning was lost. */
  #broken = false;

  /** @param onLine Called for each line, in order, without its newline. What it throws `push` throws. */
  constructor(onLine: (line: string) => void, maxBytes: number = MAX_LINE_BYTES) {
    this.#onLine = onLine;
    this.#maxBytes = maxBytes;
  }

  /** Whether the stream is inside a line: where a stream must not end. */
  get midLine(): boolean {
    return this.#rest.length > 0;
  }

  /** Throws LineError for a line that is too long or no UTF-8; once anything was thrown, nothing more is read. */
  push(chunk: Uint8Array): void {
    if (this.#broken) throw new LineError('the stream is broken');
    this.#broken = true;
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = this.#take(chunk.subarray(start, end));
      start = end + 1;
      this.#onLine(line);
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
    this.#broken = false;
  }

  #keep(piece: Uint8Array): void {
    this.#checkLength(piece);
    this.#rest.push(piece);
  }

  #take(end: Uint8Array): string {
    this.#checkLength(end);
    try {
      // Most lines come whole.
      if (this.#rest.length === 0) return decodeText(end);
      this.#rest.push(end);
      return this.#rest.take();
    } catch (cause) {
      throw new LineError('a line is no UTF-8', { cause });
    }
  }

  #checkLength(piece: Uint8Array): void {
    if (this.#rest.length + piece.length > this.#maxBytes) {
      throw new LineError(`a line is longer than ${this.#maxBytes} bytes`);
    }
  }
}
