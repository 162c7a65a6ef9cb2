import { type ClientHttp2Stream, constants } from 'node:http2';
import { Duplex } from 'node:stream';

/** How much of a request's body is kept until its response begins, so that it can be sent to another pod; in bytes. */
const KEPT_BYTES = 65_536;

/** What a stream's caller does that its call has to know. */
export interface StreamOwner {
  /** The caller gave up, or has no more use for it. */
  dropped(): void;
  /** The caller has room for more of the response. */
  wanted(): void;
}

/**
 * What the caller of a request gets: it looks and behaves like Node's `ClientHttp2Stream`, but may exist before a pod was picked, and a
 * request that no pod processed moves from one of those to another beneath it.
 */
export class BalancedStream extends Duplex {
  /** The code with which the stream was closed, as of Node's. */
  rstCode: number = constants.NGHTTP2_NO_ERROR;
  /** Whether the stream ended before the request was complete. */
  aborted = false;
  readonly #owner: StreamOwner;
  /** Node's stream for the running attempt, once there is one. */
  #native: ClientHttp2Stream | undefined;
  /** What was written so far; undefined once the request can no longer be sent to another pod. */
  #kept: Uint8Array[] | undefined = [];
  #keptBytes = 0;
  /** How much of it Node's stream has. */
  #passedOn = 0;
  /** A chunk beyond what is kept, which waits for Node's stream. */
  #held: { readonly chunk: Uint8Array; readonly written: (error?: Error | null) => void } | undefined;
  /** The caller has written everything. */
  #isComplete = false;
  #willPass = false;
  /** The code that the caller closed it with. */
  #closedWith: number | undefined;

  constructor(owner: StreamOwner) {
    super({ autoDestroy: false });
    this.#owner = owner;
  }

  // As of Node's.

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

  /** Closes the stream with a code of RST_STREAM. Before it was sent, nothing is. */
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
    this.#timeout = { ms, callback };
    this.#native?.setTimeout(ms, () => this.emit('timeout'));
    if (callback !== undefined) this.once('timeout', callback);
  }
  #timeout: { readonly ms: number; readonly callback: (() => void) | undefined } | undefined;

  sendTrailers(headers: Parameters<ClientHttp2Stream['sendTrailers']>[0]): void {
    this.#native?.sendTrailers(headers);
  }

  // For its call.

  /** Whether everything written so far can be sent again. */
  get isRepeatable(): boolean {
    return this.#kept !== undefined;
  }

  /** Whether the caller closed or destroyed it. */
  get isDropped(): boolean {
    return this.destroyed || this.#closedWith !== undefined;
  }

  /** The request was sent on this stream of Node's: what was written goes there. */
  attach(native: ClientHttp2Stream): void {
    this.#native = native;
    this.#passedOn = 0;
    if (this.#timeout !== undefined) native.setTimeout(this.#timeout.ms, () => this.emit('timeout'));
    if (this.#keptBytes > 0 || this.#isComplete) this.#pass();
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    this.#kept = undefined;
    native.write(held.chunk, held.written);
  }

  /** Node's stream is over, and another may follow. */
  detach(): void {
    this.#native = undefined;
  }

  /** The response has begun: the request is not sent again. */
  answered(): void {
    this.#pass();
    this.#kept = undefined;
  }

  /** Node's stream has ended after the complete response. */
  finished(rstCode: number): void {
    this.rstCode = rstCode;
    // As Node's stream: what is written from now on fails.
    if (!this.writableEnded) this.end();
    if (this.readableEnded) this.destroy();
    else this.once('end', () => this.destroy());
  }

  /** Node's stream ended before the response was complete. */
  failed(rstCode: number, error: Error | undefined): void {
    this.rstCode = rstCode;
    if (!this.aborted && !this.writableEnded) {
      this.aborted = true;
      this.emit('aborted');
    }
    this.destroy(error);
  }

  // For Duplex.

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, written: (error?: Error | null) => void): void {
    const kept = this.#kept;
    const native = this.#native;
    if (kept !== undefined && this.#keptBytes + chunk.length <= KEPT_BYTES) {
      // A copy, because the caller may change its buffer once it was told.
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

  /** Most callers end a short request right after writing it: then its body and its end are one frame. */
  #passSoon(): void {
    if (this.#willPass) return;
    this.#willPass = true;
    process.nextTick(passNext, this);
  }

  /** Passes what is kept to Node's stream. */
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

/** Twice, because a caller that ends the request when it is told that it was written does so after the first. */
function passNext(stream: BalancedStream): void {
  process.nextTick(BalancedStream.passNow, stream);
}
