import type { Duplex } from 'node:stream';
import { loadReportHeader, reportsHeader } from '../kit/index.js';
import { type AttemptHandler, type CallersRequest, type HandlerV1, markCallersError } from './handler.js';
import type { PodClient } from './pod-pool.js';

/**
 * The caller's side of a request for which both the caller and undici 7 use the older handler form: nothing is translated, and headers are
 * not parsed twice. `Caller` does this for the newer form.
 */
export class CallerV1 implements HandlerV1, AttemptHandler {
  readonly #handler: HandlerV1;
  readonly #call: Required<CallersRequest>;
  #abort: ((reason: Error) => void) | undefined = undefined;

  constructor(handler: HandlerV1, call: Required<CallersRequest>) {
    this.#handler = handler;
    this.#call = call;
  }

  announce(): void {
    this.#handler.onConnect?.((reason) => this.#call.abort(reason));
  }

  fail(error: Error): void {
    if (this.#handler.onError === undefined) throw error;
    this.#handler.onError(error);
  }

  interrupt(reason: Error): void {
    this.#abort?.(reason);
  }

  onConnect(abort: (reason?: Error) => void): void {
    const call = this.#call;
    if (call.done) {
      abort(call.abortReason);
      return;
    }
    call.began();
    this.#abort = abort;
  }

  onResponseStarted(): void {
    this.#call.responded();
    this.#handler.onResponseStarted?.();
  }

  onHeaders(status: number, headers: unknown, resume: () => void, statusText: string): boolean {
    const call = this.#call;
    call.responded(status);
    const isReporting =
      rawHeader(headers, loadReportHeader) !== undefined || rawHeader(headers, reportsHeader) !== undefined;
    if (status >= 500 || status === 429 || isReporting) {
      call.judged(status, (name) => rawHeader(headers, name));
      if (call.isDiscarding) return true;
    }
    try {
      return this.#handler.onHeaders!(status, headers, resume, statusText);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onData(chunk: Buffer): boolean {
    const call = this.#call;
    if (call.isDiscarding) {
      call.discards(chunk.length);
      return true;
    }
    try {
      return this.#handler.onData!(chunk);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onComplete(trailers: unknown): void {
    const call = this.#call;
    if (call.isDiscarding) {
      call.discarded();
      return;
    }
    call.completed();
    this.#handler.onComplete!(trailers);
  }

  onUpgrade(status: number, headers: unknown, socket: Duplex): void {
    this.#call.upgraded(status, socket);
    this.#handler.onUpgrade!(status, headers, socket);
  }

  onError(error: Error): void {
    if (this.#call.isDiscarding) this.#call.discarded(error);
    else this.#call.attemptFailed(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#call.client = client;
  }
}

/** The value of one header in undici's raw form: an array of alternating names and values, as buffers or strings. */
export function rawHeader(headers: unknown, wanted: string): string | undefined {
  if (!Array.isArray(headers)) return undefined;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] as Buffer | string;
    if (name.length === wanted.length && name.toString().toLowerCase() === wanted) return String(headers[index + 1]);
  }
  return undefined;
}
