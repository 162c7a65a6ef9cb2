/** An end message in a response's body is read only up to this size, in bytes. */
const MAX_BYTES = 65_536;
/** The length of the header before each message in a response's body, in bytes: one for flags, four for the message's length. */
const HEAD_BYTES = 5;
const COMPRESSED = 0x01;

/**
 * Reads a response's body and finds the message that says how the call ended, for protocols that put it there: in a stream of Connect it is
 * the last message (flag 0x02), in gRPC-web it holds the trailers (flag 0x80). Bytes are copied, because a part of the body is a view of
 * everything that was read from the connection with it. What follows the end message is not read.
 */
export class EndMessage {
  readonly #flag: number;
  readonly #head = new DataView(new ArrayBuffer(HEAD_BYTES));
  /** How many bytes of the next message's header have arrived. */
  #headBytes = 0;
  /** How many bytes of the current message have not arrived yet. */
  #left = 0;
  /** The end message, filled as it arrives; undefined before it begins, and if it cannot be read. */
  #message: Buffer | undefined;
  /** Whether the end message has begun. */
  #isLast = false;

  constructor(flag: number) {
    this.#flag = flag;
  }

  /** Reads a part of the response's body. */
  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left === 0) {
        if (this.#isLast) return;
        this.#head.setUint8(this.#headBytes++, chunk[at++] as number);
        if (this.#headBytes === HEAD_BYTES) this.#begin();
        continue;
      }
      const part = chunk.subarray(at, at + this.#left);
      this.#message?.set(part, this.#message.length - this.#left);
      this.#left -= part.length;
      at += part.length;
    }
  }

  #begin(): void {
    const flags = this.#head.getUint8(0);
    this.#left = this.#head.getUint32(1);
    this.#headBytes = 0;
    this.#isLast = (flags & this.#flag) !== 0;
    const isReadable = (flags & COMPRESSED) === 0 && this.#left <= MAX_BYTES;
    if (this.#isLast && isReadable) this.#message = Buffer.alloc(this.#left);
  }

  /** The text of the end message; undefined if the body has none, or if it is compressed, incomplete or too long. */
  get text(): string | undefined {
    return this.#left > 0 ? undefined : this.#message?.toString();
  }
}
