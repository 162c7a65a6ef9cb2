import { ByteBuffer, decodeText } from './byte-buffer.js';

/** The longest line of a watch, in bytes; a longer one is not a valid event. The API server stores no object larger than 1.5 MiB. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;

const NEWLINE = 10;

/** The error for a line in a stream that is too long, is not UTF-8, or is not a valid event. */
export class LineError extends Error {
  override readonly name = 'LineError';
}

/**
 * Splits a stream of bytes into lines. A line may arrive in many chunks, which may be cut anywhere, even inside a UTF-8 character. One
 * chunk may also contain several lines.
 */
export class LineReader {
  readonly #onLine: (line: string) => void;
  readonly #maxBytes: number;
  /** The beginning of a line that is not complete yet. */
  readonly #rest = new ByteBuffer();
  /** Whether an error was thrown. After that the rest of the stream is not read, because it may begin in the middle of a line. */
  #broken = false;

  /** @param onLine Called for each line in order, without its newline. If `onLine` throws, so does `push`. */
  constructor(onLine: (line: string) => void, maxBytes: number = MAX_LINE_BYTES) {
    this.#onLine = onLine;
    this.#maxBytes = maxBytes;
  }

  /** Whether the stream has stopped inside a line, where it must not end. */
  get midLine(): boolean {
    return this.#rest.length > 0;
  }

  /**
   * Reads a chunk of the stream. Throws LineError for a line that is too long or not UTF-8; after any error, every further call throws.
   */
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
      // Most lines arrive whole in one chunk, so no copy is needed.
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
