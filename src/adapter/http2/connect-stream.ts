import { EventEmitter } from 'node:events';
import { type ClientHttp2Stream, constants } from 'node:http2';
import type { CallStream, StreamOwner } from './call-stream.js';
import { Chunks, type ReaderEvents } from './chunks.js';
import { RequestBody, type Written } from './request-body.js';

/**
 * The stream of a call of Connect: what connect-node uses of Node's `ClientHttp2Stream`, and nothing else. It is no `Duplex`, because a
 * second one in front of Node's stream makes unary calls slower.
 */
export class ConnectStream extends EventEmitter implements CallStream, ReaderEvents {
  rstCode: number = constants.NGHTTP2_NO_ERROR;
  destroyed = false;
  writableEnded = false;
  readonly #owner: StreamOwner;
  readonly #body: RequestBody = new RequestBody();
  readonly #chunks: Chunks = new Chunks(this);
  /** Node's stream for the running attempt; undefined while there is none. */
  #native: ClientHttp2Stream | undefined = undefined;
  #isClosing = false;
  #wasRead = false;

  constructor(owner: StreamOwner) {
    super();
    this.#owner = owner;
  }

  // The members that follow are used by connect-node, and behave like those of Node's stream.

  get closed(): boolean {
    return this.isDropped;
  }

  get session(): ClientHttp2Stream['session'] {
    return this.#native?.session;
  }

  /** Writes a part of the request body. `written` is called once the next part may be written, maybe at once, or with an error. */
  write(chunk: Uint8Array, _encoding: BufferEncoding, written: Written): void {
    if (this.writableEnded) process.nextTick(written, notWritten('ERR_STREAM_WRITE_AFTER_END'));
    else if (this.destroyed) process.nextTick(written, notWritten('ERR_STREAM_DESTROYED'));
    else this.#body.write(chunk, written);
  }

  /** Ends the request body. */
  end(ended?: () => void): this {
    if (!this.writableEnded) {
      this.writableEnded = true;
      this.#body.end();
    }
    if (ended !== undefined) process.nextTick(ended);
    return this;
  }

  /** Closes the stream with an RST_STREAM code. A request that was not sent yet is never sent. */
  close(code: number = constants.NGHTTP2_NO_ERROR, callback?: () => void): void {
    if (callback !== undefined) this.once('close', callback);
    if (this.isDropped) return;
    this.#isClosing = true;
    this.rstCode = code;
    this.#owner.dropped();
    if (this.#native === undefined) this.destroy();
    else this.#native.close(code);
  }

  destroy(error?: Error): this {
    if (this.destroyed) return this;
    this.destroyed = true;
    this.#body.drop(error ?? null);
    this.#owner.dropped();
    const native = this.#native;
    if (native !== undefined && !native.destroyed) {
      if (error !== undefined) this.rstCode = constants.NGHTTP2_INTERNAL_ERROR;
      native.destroy(error);
    }
    process.nextTick(ConnectStream.#emitClose, this, error);
    return this;
  }

  [Symbol.asyncIterator](): Chunks {
    return this.#chunks;
  }

  // The members that follow implement `CallStream`.

  get isRepeatable(): boolean {
    return this.#body.isRepeatable;
  }

  get isDropped(): boolean {
    return this.destroyed || this.#isClosing;
  }

  attach(native: ClientHttp2Stream): void {
    this.#native = native;
    this.#body.attach(native);
  }

  detach(): void {
    this.#native = undefined;
    this.#body.detach();
  }

  answered(): void {
    this.#body.answered();
  }

  push(chunk: Buffer | null): boolean {
    if (chunk !== null) return this.#chunks.push(chunk);
    this.#chunks.complete();
    return false;
  }

  finished(rstCode: number): void {
    this.rstCode = rstCode;
    this.writableEnded = true;
    if (this.#wasRead) this.destroy();
    else this.once('end', () => this.destroy());
  }

  failed(rstCode: number, error: Error | undefined): void {
    this.rstCode = rstCode;
    this.destroy(error);
  }

  // The members that follow implement `ReaderEvents`.

  wanted(): void {
    this.#owner.wanted();
  }

  wasRead(): void {
    this.#wasRead = true;
    this.emit('end');
  }

  left(): void {
    this.destroy();
  }

  static #emitClose(stream: ConnectStream, error: Error | undefined): void {
    if (error !== undefined) stream.emit('error', error);
    stream.#chunks.close(error);
    stream.emit('close');
  }
}

/** The error that Node's streams have for a write that comes too late. */
function notWritten(code: string): Error {
  return Object.assign(new Error('the stream takes no more of the request'), { code });
}
