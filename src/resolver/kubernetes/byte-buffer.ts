/** What is kept for the next text; a larger buffer goes once its text was taken. */
const KEEP_BYTES = 64 * 1024;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Bytes that arrive in pieces, in one buffer that doubles as it fills. A list of the pieces would cost a hundred times
 * their size when a server or a proxy sends them byte by byte.
 */
export class ByteBuffer {
  #bytes = new Uint8Array(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Copies a piece: nothing of what was given is kept. */
  push(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(length, this.#bytes.length * 2, 1_024));
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(piece, this.#length);
    this.#length = length;
  }

  /** All of it as text; empty afterwards. Throws for what is no UTF-8, and is empty then, too. */
  take(): string {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    if (this.#bytes.length > KEEP_BYTES) this.#bytes = new Uint8Array(0);
    return decodeText(bytes);
  }
}

/** Throws for what is no UTF-8: a bad byte would turn into U+FFFD, and one name into another. */
export function decodeText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
