import { type ClientHttp2Stream, constants } from 'node:http2';
import { Duplex } from 'node:stream';

/** How much of a request body is kept until the response begins, so that the request can be sent to another pod; in bytes. */
const KEPT_BYTES = 65_536;

/** What the caller does with a stream, as far as the stream's call has to react. */
export interface StreamOwner {
  /** The caller has closed or destroyed the stream. */
  dropped(): void;
  /** The caller can take more of the response. */
  wanted(): void;
}

/**
 * The stream that a caller gets for a request. It looks and behaves like Node's `ClientHttp2Stream`, but may exist before a pod was picked.
 * When a request moves to another pod, another stream of Node takes over beneath this one.
 */
export class BalancedStream extends Duplex {
  /** The RST_STREAM code with which the stream was closed, as in Node's streams. */
  rstCode: number = constants.NGHTTP2_NO_ERROR;
  /** Whether the stream ended before the request body was complete. */
  aborted = false;
  readonly #owner: StreamOwner;
  /** Node's stream for the running attempt; undefined while there is none. */
  #native: ClientHttp2Stream | undefined;
  /** The chunks of the request body that were written so far; undefined once the request can no longer be sent to another pod. */
  #kept: Uint8Array[] | undefined = [];
  #keptBytes = 0;
  /** How many chunks in `#kept` were written to Node's stream. */
  #passedOn = 0;
  /** A chunk of the request body that is too large to be kept and waits for Node's stream. */
  #held: { readonly chunk: Uint8Array; readonly written: (error?: Error | null) => void } | undefined;
  /** Whether the caller has written the whole request body. */
  #isComplete = false;
  #willPass = false;
  /** The RST_STREAM code with which the caller closed the stream; undefined if the caller did not. */
  #closedWith: number | undefined;
  /** How long Node's stream may be idle before `timeout` is emitted, in ms; 0 = no limit. The wait for a pod does not count. */
  #timeoutMs = 0;

  constructor(owner: StreamOwner) {
    super({ autoDestroy: false });
    this.#owner = owner;
  }

  // The members that follow behave like those of Node's stream.

  get id(): number | undefined {
    return this.#native?.id;
  }

  get pending(): boolean {
    return this.#native?.pending ?? true;
  }

  get session(): ClientHttp2Stream['session'] {
    return this.#native?.session;
  }

  get state(): ClientHttp2Stream['state'] {
    return this.#native?.state ?? {};
  }

  get bufferSize(): number {
    return this.writableLength + (this.#native?.bufferSize ?? 0);
  }

  get sentHeaders(): ClientHttp2Stream['sentHeaders'] | undefined {
    return this.#native?.sentHeaders;
  }

  /** Closes the stream with an RST_STREAM code. A request that was not sent yet is never sent. */
  close(code: number = constants.NGHTTP2_NO_ERROR, callback?: () => void): void {
    if (callback !== undefined) this.once('close', callback);
    if (this.destroyed || this.#closedWith !== undefined) return;
    this.#closedWith = code;
    this.rstCode = code;
    this.#owner.dropped();
    if (this.#native === undefined) this.destroy();
    else this.#native.close(code);
  }

  setTimeout(ms: number, callback?: () => void): void {
    this.#timeoutMs = ms;
    if (this.#native !== undefined) this.#limit(this.#native);
    if (callback !== undefined && ms === 0) this.off('timeout', callback);
    else if (callback !== undefined) this.once('timeout', callback);
  }

  sendTrailers(headers: Parameters<ClientHttp2Stream['sendTrailers']>[0]): void {
    this.#native?.sendTrailers(headers);
  }

  // The members that follow are for the call that this stream belongs to.

  /** Whether the whole request body written so far is kept, so that it can be sent to another pod. */
  get isRepeatable(): boolean {
    return this.#kept !== undefined;
  }

  /** Whether the caller closed or destroyed the stream. */
  get isDropped(): boolean {
    return this.destroyed || this.#closedWith !== undefined;
  }

  /** The request was sent on `native`, a stream of Node's: it gets the request body written so far, and what is written later. */
  attach(native: ClientHttp2Stream): void {
    this.#native = native;
    this.#passedOn = 0;
    if (this.#timeoutMs > 0) this.#limit(native);
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

  /** The response has begun, so the request body is not needed for another attempt. */
  answered(): void {
    this.#pass();
    this.#kept = undefined;
  }

  /** The response is complete, and Node's stream has ended. */
  finished(rstCode: number): void {
    this.rstCode = rstCode;
    // The stream ends for writing as well, so that later writes fail as in Node's streams.
    if (!this.writableEnded) this.end();
    if (this.readableEnded) this.destroy();
    else this.once('end', () => this.destroy());
  }

  /** The response was not complete when Node's stream ended. */
  failed(rstCode: number, error: Error | undefined): void {
    this.rstCode = rstCode;
    if (!this.aborted && !this.writableEnded) {
      this.aborted = true;
      this.emit('aborted');
    }
    this.destroy(error);
  }

  // The methods that follow implement `Duplex`.

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, written: (error?: Error | null) => void): void {
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

  override _final(ended: (error?: Error | null) => void): void {
    this.#isComplete = true;
    this.#pass();
    ended();
  }

  override _read(): void {
    this.#owner.wanted();
  }

  override _destroy(error: Error | null, destroyed: (error?: Error | null) => void): void {
    this.#held?.written(error ?? new Error('the stream was destroyed'));
    this.#held = undefined;
    this.#kept = undefined;
    this.#owner.dropped();
    const native = this.#native;
    if (native !== undefined && !native.destroyed) {
      if (error !== null) this.rstCode = constants.NGHTTP2_INTERNAL_ERROR;
      native.destroy(error ?? undefined);
    }
    destroyed(error);
  }

  /** Applies the limit of `setTimeout` to Node's stream. */
  #limit(native: ClientHttp2Stream): void {
    if (native.listenerCount('timeout') === 0) {
      native.on('timeout', () => {
        if (this.#native === native) this.emit('timeout');
      });
    }
    native.setTimeout(this.#timeoutMs);
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

  static passNow(stream: BalancedStream): void {
    if (stream.#willPass) stream.#pass();
  }
}

/** A caller that ends its request in the callback of its write, or in a microtask after that, has done so two ticks after the write. */
function passAfterMicrotasks(stream: BalancedStream): void {
  void Promise.resolve(stream).then(passInTick);
}

function passInTick(stream: BalancedStream): void {
  process.nextTick(BalancedStream.passNow, stream);
}
