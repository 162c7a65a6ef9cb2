import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { outcomeOfAnswer } from '../http/answer.js';
import { loadReportHeader } from '../kit/index.js';
import { Call } from './call.js';
import type { CallOwner } from './call-owner.js';
import { noContext } from './compatibility.js';
import { type HandlerV2, tellFailed, withRawHeaders } from './handler.js';

/** A call in the newer form. It is also the caller's controller, and passes the caller's requests on to that of the attempt. */
export class CallV2 extends Call {
  readonly #handler: HandlerV2;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key: string | undefined, handler: HandlerV2) {
    super(owner, options, key);
    this.#handler = handler;
  }

  protected override announce(): void {
    this.#handler.onRequestStart(this, noContext);
  }

  protected override deliver(error: Error): void {
    tellFailed(this.#handler, this, error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.begunBy(controller);
  }

  onResponseStarted(): void {
    this.responded();
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    this.responded();
    withRawHeaders(controller, headers);
    const report = headers[loadReportHeader];
    if (status >= 500 || status === 429 || report !== undefined) {
      this.judged(outcomeOfAnswer(status, (name) => headers[name], report));
    }
    try {
      this.#handler.onResponseStart?.(this, status, headers, statusText);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    try {
      this.#handler.onResponseData?.(this, chunk);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.completed();
    this.#handler.onResponseEnd?.(this, trailers);
  }

  onRequestUpgrade(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    // First, since undici's own handlers abort here what they take for refused: over HTTP/2 every answer comes this way.
    try {
      this.#handler.onRequestUpgrade?.(this, status, headers, socket);
    } catch (error) {
      this.threw(error);
      throw error;
    }
    if (!this.aborted) this.upgraded(status, socket);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.attemptFailed(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }
}
