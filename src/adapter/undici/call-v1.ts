import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { outcomeOfAnswer } from '../http/answer.js';
import { loadReportHeader } from '../kit/index.js';
import { Call } from './call.js';
import type { CallOwner } from './call-owner.js';
import { type HandlerV1, rawHeader } from './handler-v1.js';

/** A call whose caller and undici both speak the older form: nothing is translated on the way. */
export class CallV1 extends Call {
  readonly #handler: HandlerV1;
  #interrupt: ((reason: Error) => void) | undefined;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key: string | undefined, handler: HandlerV1) {
    super(owner, options, key);
    this.#handler = handler;
  }

  protected override announce(): void {
    this.#handler.onConnect?.((reason) => this.abort(reason));
  }

  protected override deliver(error: Error): void {
    if (this.#handler.onError === undefined) throw error;
    this.#handler.onError(error);
  }

  protected override interrupt(reason: Error): void {
    this.#interrupt?.(reason);
  }

  onConnect(abort: (reason?: Error) => void): void {
    if (this.done) {
      abort(this.abortReason);
      return;
    }
    this.began();
    this.#interrupt = abort;
  }

  onResponseStarted(): void {
    this.responded();
    this.#handler.onResponseStarted?.();
  }

  onHeaders(status: number, headers: unknown, resume: () => void, statusText: string): boolean {
    this.responded();
    const report = rawHeader(headers, loadReportHeader);
    if (status >= 500 || status === 429 || report !== undefined) {
      this.judged(outcomeOfAnswer(status, (name) => rawHeader(headers, name), report));
    }
    try {
      return this.#handler.onHeaders!(status, headers, resume, statusText);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onData(chunk: Buffer): boolean {
    try {
      return this.#handler.onData!(chunk);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onComplete(trailers: unknown): void {
    this.completed();
    this.#handler.onComplete!(trailers);
  }

  onUpgrade(status: number, headers: unknown, socket: Duplex): void {
    this.upgraded(status, socket);
    this.#handler.onUpgrade!(status, headers, socket);
  }

  onError(error: Error): void {
    this.attemptFailed(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }
}
