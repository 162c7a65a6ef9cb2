/** An end message in a response's body is read only up to this size, in bytes. */
const MAX_BYTES = 65_536;
/** The length of the header before each message in a response's body, in bytes: one for flags, four for the message's length. */
const HEAD_BYTES = 5;
const COMPRESSED = 0x01;

/**
 * Reads a response's body and finds the message that says how the call ended, for protocols that put it there: in a stream of Connect it is
 * the last message (flag 0x02), in gRPC-web it holds the trailers (flag 0x80).
 */
export class EndMessage {
  readonly #flag: number;
  /** The bytes of the next message's header (flags and length) that have arrived. */
  #head: number[] = [];
  #left = 0;
  #isEnd = false;
  #bytes = 0;
  readonly #parts: Uint8Array[] = [];

  constructor(flag: number) {
    this.#flag = flag;
  }

  /** Reads a part of the response's body. */
  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left === 0) {
        this.#head.push(chunk[at++] as number);
        if (this.#head.length === HEAD_BYTES) this.#begin();
        continue;
      }
      const part = chunk.subarray(at, at + this.#left);
      if (this.#isEnd) {
        this.#bytes += part.length;
        if (this.#bytes <= MAX_BYTES) this.#parts.push(part);
      }
      this.#left -= part.length;
      at += part.length;
    }
  }

  #begin(): void {
    const [flags = 0, a = 0, b = 0, c = 0, d = 0] = this.#head;
    this.#head = [];
    this.#left = a * 0x1000000 + (b << 16) + (c << 8) + d;
    this.#isEnd = (flags & this.#flag) !== 0 && (flags & COMPRESSED) === 0;
  }

  /** The text of the end message; undefined if the body has none, or if it is compressed, incomplete or too long. */
  get text(): string | undefined {
    if (!this.#isEnd || this.#left > 0 || this.#bytes > MAX_BYTES) return undefined;
    return Buffer.concat(this.#parts).toString();
  }
}
