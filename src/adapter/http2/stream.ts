import { type ClientHttp2Stream, constants } from 'node:http2';
import { Duplex } from 'node:stream';
import type { CallStream, StreamOwner } from './call-stream.js';
import { RequestBody, type Written } from './request-body.js';

/** The stream of a request of the caller's own. It looks and behaves like Node's `ClientHttp2Stream`. */
export class BalancedStream extends Duplex implements CallStream {
  rstCode: number = constants.NGHTTP2_NO_ERROR;
  /** Whether the stream ended before the request body was complete. */
  aborted = false;
  readonly #owner: StreamOwner;
  /** Node's stream for the running attempt; undefined while there is none. */
  #native: ClientHttp2Stream | undefined;
  readonly #body: RequestBody = new RequestBody();
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

  get sentTrailers(): ClientHttp2Stream['sentTrailers'] {
    return this.#native?.sentTrailers;
  }

  get endAfterHeaders(): boolean {
    return this.#native?.endAfterHeaders ?? false;
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

  setTimeout(ms: number, callback?: () => void): this {
    this.#timeoutMs = ms;
    if (this.#native !== undefined) this.#limit(this.#native);
    if (callback !== undefined && ms === 0) this.off('timeout', callback);
    else if (callback !== undefined) this.once('timeout', callback);
    return this;
  }

  sendTrailers(headers: Parameters<ClientHttp2Stream['sendTrailers']>[0]): void {
    this.#native?.sendTrailers(headers);
  }

  // The members that follow implement `CallStream`.

  get isRepeatable(): boolean {
    return this.#body.isRepeatable;
  }

  get isDropped(): boolean {
    return this.destroyed || this.#closedWith !== undefined;
  }

  attach(native: ClientHttp2Stream): void {
    this.#native = native;
    this.emit('ready');
    if (this.#timeoutMs > 0) this.#limit(native);
    this.#body.attach(native);
  }

  detach(): void {
    this.#native = undefined;
    this.#body.detach();
  }

  answered(): void {
    this.#body.answered();
  }

  finished(rstCode: number): void {
    this.rstCode = rstCode;
    this.#endRequest();
    // A stream with an error, such as that of a late write, never emits `end`.
    if (this.readableEnded || this.errored !== null) {
      this.destroy();
      return;
    }
    this.once('end', () => this.destroy());
    this.#endUnread();
  }

  failed(rstCode: number, error: Error | undefined): void {
    this.rstCode = rstCode;
    this.#endRequest();
    if (error === undefined && rstCode === constants.NGHTTP2_NO_ERROR) {
      this.push(null);
      this.#endUnread();
    }
    this.destroy(error);
  }

  // The methods that follow implement `Duplex`.

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, written: Written): void {
    this.#body.write(chunk, written);
  }

  override _final(ended: Written): void {
    this.#body.end();
    ended();
  }

  override _read(): void {
    this.#owner.wanted();
  }

  override _destroy(error: Error | null, destroyed: Written): void {
    this.#body.drop(error);
    this.#owner.dropped();
    const native = this.#native;
    if (error?.name === 'AbortError') {
      // Node's streams say CANCEL for an abort of their own signal only. A server would take INTERNAL_ERROR for a failure of its client.
      this.rstCode = constants.NGHTTP2_CANCEL;
      native?.close(constants.NGHTTP2_CANCEL);
      native?.destroy();
    } else if (native !== undefined && !native.destroyed) {
      if (error !== null) this.rstCode = constants.NGHTTP2_INTERNAL_ERROR;
      native.destroy(error ?? undefined);
    }
    // As with Node's streams, the reader of a stream that is closed without an error gets to the end.
    this.push(null);
    destroyed(error);
  }

  /** As in Node's streams, `end` is emitted although nobody reads, if nothing is left to read. */
  #endUnread(): void {
    if (this.readableLength === 0) this.read(0);
  }

  /** Ends the stream for writing, so that later writes fail as in Node's streams. */
  #endRequest(): void {
    if (this.writableEnded) return;
    if (!this.aborted) {
      this.aborted = true;
      this.emit('aborted');
    }
    this.end();
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
}
