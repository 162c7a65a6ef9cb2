/** A buffer up to this size, in bytes, is kept for the next text. A larger one is released after use. */
const KEEP_BYTES = 64 * 1024;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Collects chunks of bytes in one buffer, which doubles in size when it is full. A list of chunks would be simpler, but if a server or
 * proxy sent data byte by byte, the list would take a hundred times the memory of the data.
 */
export class ByteBuffer {
  #bytes = new Uint8Array(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Copies a chunk to the end of the buffer; keeps no reference to the chunk. */
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

  /** Returns all collected bytes as text; the buffer is empty afterwards. Throws for invalid UTF-8, and is then empty, too. */
  take(): string {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    if (this.#bytes.length > KEEP_BYTES) this.#bytes = new Uint8Array(0);
    return decodeText(bytes);
  }
}

/** Decodes UTF-8. Throws for invalid bytes: U+FFFD in place of a bad byte would turn one name into another. */
export function decodeText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
