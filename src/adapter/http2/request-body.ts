import type { ClientHttp2Stream } from 'node:http2';

/** How much of a request body is kept until the response begins, so that the request can be sent to another pod; in bytes. */
const KEPT_BYTES = 65_536;

/** Called when a chunk counts as written, or with the error because of which it was not. */
export type Written = (error?: Error | null) => void;

/** The body of a request on its way to Node's streams: the first, and another one when the request moves to another pod. */
export class RequestBody {
  /** Node's stream for the running attempt; undefined while there is none. */
  #native: ClientHttp2Stream | undefined = undefined;
  /** The chunks that were written so far; undefined once the request can no longer be sent to another pod. */
  #kept: Uint8Array[] | undefined = [];
  #keptBytes = 0;
  /** How many chunks in `#kept` were written to Node's stream. */
  #passedOn = 0;
  /** A chunk that is too large to be kept and waits for Node's stream. */
  #held: { readonly chunk: Uint8Array; readonly written: Written } | undefined = undefined;
  /** Whether the caller has written the whole body. */
  #isComplete = false;
  #willPass = false;

  /** Whether all that was written so far is kept, so that it can be sent to another pod. */
  get isRepeatable(): boolean {
    return this.#kept !== undefined;
  }

  /** The request was sent on `native`, which gets what was written so far, and what is written later. */
  attach(native: ClientHttp2Stream): void {
    this.#native = native;
    this.#passedOn = 0;
    if (this.#keptBytes > 0 || this.#isComplete) this.#pass();
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    this.#kept = undefined;
    native.write(held.chunk, held.written);
  }

  /** The attempt on Node's stream is over. Another attempt may follow. */
  detach(): void {
    this.#native = undefined;
  }

  /** The response has begun, so the body is not needed for another attempt. */
  answered(): void {
    this.#pass();
    this.#kept = undefined;
  }

  write(chunk: Uint8Array, written: Written): void {
    const kept = this.#kept;
    const native = this.#native;
    if (kept !== undefined && this.#keptBytes + chunk.length <= KEPT_BYTES) {
      // The chunk is copied, because the caller may reuse its buffer once the chunk counts as written.
      kept.push(Buffer.from(chunk));
      this.#keptBytes += chunk.length;
      if (native !== undefined) this.#passSoon();
      written();
    } else if (native === undefined) this.#held = { chunk, written };
    else {
      this.#pass();
      this.#kept = undefined;
      native.write(chunk, written);
    }
  }

  end(): void {
    this.#isComplete = true;
    this.#pass();
  }

  /** The caller's stream is destroyed, so nothing more is sent. */
  drop(error: Error | null): void {
    this.#held?.written(error ?? new Error('the stream was destroyed'));
    this.#held = undefined;
    this.#kept = undefined;
  }

  /**
   * Passes the kept body on after a tick, the microtasks that follow, and another tick. A caller that ends its request right after its only
   * write, in the callback of that, or after a promise as Connect does, then sends the body and the end of the stream in one frame.
   */
  #passSoon(): void {
    if (this.#willPass) return;
    this.#willPass = true;
    process.nextTick(passAfterMicrotasks, this);
  }

  /** Writes the part of the kept body that Node's stream does not have yet. */
  #pass(): void {
    this.#willPass = false;
    const native = this.#native;
    if (native === undefined || native.destroyed || native.closed) return;
    const kept = this.#kept;
    if (kept !== undefined) {
      while (this.#passedOn < kept.length) {
        const chunk = kept[this.#passedOn++] as Uint8Array;
        if (this.#isComplete && this.#passedOn === kept.length) native.end(chunk);
        else native.write(chunk);
      }
    }
    if (this.#isComplete && !native.writableEnded) native.end();
  }

  static passNow(body: RequestBody): void {
    if (body.#willPass) body.#pass();
  }
}

/** A caller that ends its request in the callback of its write, or in a microtask after that, has done so two ticks after the write. */
function passAfterMicrotasks(body: RequestBody): void {
  void Promise.resolve(body).then(passInTick);
}

function passInTick(body: RequestBody): void {
  process.nextTick(RequestBody.passNow, body);
}
