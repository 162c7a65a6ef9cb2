/** W7: a line longer than this is no event of ours. */
const MAX_LINE_BYTES = 32 * 1024 * 1024;

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
  // Fatal: a character that is no UTF-8 would otherwise turn into U+FFFD, and a name into another name.
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  /** Whether something was thrown: what follows may be the rest of a line whose beginning was lost. */
  #broken = false;

  /** @param onLine Called for each line, in order, without its newline. What it throws `push` throws. */
  constructor(onLine: (line: string) => void, maxBytes: number = MAX_LINE_BYTES) {
    this.#onLine = onLine;
    this.#maxBytes = maxBytes;
  }

  /** Whether the stream is inside a line: where a stream must not end. */
  get midLine(): boolean {
    return this.#bytes > 0;
  }

  /** Throws LineError for a line that is too long or no UTF-8; once anything was thrown, nothing more is read. */
  push(chunk: Uint8Array): void {
    if (this.#broken) throw new LineError('the stream is broken');
    this.#broken = true;
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      start = end + 1;
      this.#onLine(this.#take());
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
    this.#broken = false;
  }

  #keep(piece: Uint8Array): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new LineError(`a line is longer than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }

  #take(): string {
    const bytes = this.#pieces.length === 1 ? (this.#pieces[0] as Uint8Array) : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    try {
      return this.#decoder.decode(bytes);
    } catch (cause) {
      throw new LineError('a line is no UTF-8', { cause });
    }
  }
}
