import type { Duplex } from 'node:stream';
import { withoutOwnHeaders } from '../http/answer.js';
import type { SharedTimers } from '../kit/index.js';
import { DiscardedResponse } from './discarded-response.js';
import { type AttemptHandler, type AttemptOwner, type HandlerV1, markCallersError, mayBeGivenUp } from './handler.js';
import type { PodClient } from './pod-pool.js';

/** The handler that undici 7 gets for one attempt of a caller whose handler has the older form too. Otherwise as `AttemptHandlerV2`. */
export class AttemptHandlerV1 implements AttemptHandler, HandlerV1 {
  readonly #handler: HandlerV1;
  readonly #owner: AttemptOwner;
  #abort: ((reason?: Error) => void) | undefined = undefined;
  #client: PodClient | undefined = undefined;
  #discarded: DiscardedResponse | undefined = undefined;

  constructor(handler: HandlerV1, owner: AttemptOwner) {
    this.#handler = handler;
    this.#owner = owner;
  }

  interrupt(reason: Error): void {
    this.#abort?.(reason);
  }

  onConnect(abort: (reason?: Error) => void): void {
    const owner = this.#owner;
    if (owner.done) {
      abort(owner.abortReason);
      return;
    }
    owner.sending?.();
    this.#abort = abort;
  }

  onResponseStarted(): void {
    this.#owner.responded?.();
    this.#handler.onResponseStarted?.();
  }

  onHeaders(status: number, headers: unknown, resume: () => void, statusText: string): boolean {
    const owner = this.#owner;
    owner.responded?.(status);
    const header = (name: string): unknown => rawHeader(headers, name);
    if (mayBeGivenUp(status, header, owner) && owner.takes?.(status, header) === false) {
      this.#discarded = new DiscardedResponse(owner.timers as SharedTimers, (reason) => this.interrupt(reason));
      this.#discarded.declared(header('content-length'));
      return true;
    }
    try {
      return this.#handler.onHeaders!(status, seenBy(headers), resume, statusText);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onData(chunk: Buffer): boolean {
    if (this.#discarded !== undefined) {
      this.#discarded.add(chunk.length);
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
    this.#client?.responseEnded();
    if (this.#discarded !== undefined) {
      this.#discarded.over();
      return;
    }
    this.#owner.completed?.();
    this.#handler.onComplete!(trailers);
  }

  onUpgrade(status: number, headers: unknown, socket: Duplex): void {
    this.#owner.upgraded?.(status, socket);
    this.#handler.onUpgrade!(status, seenBy(headers), socket);
  }

  onError(error: Error): void {
    if (this.#discarded !== undefined) this.#discarded.over();
    else this.#owner.attemptFailed?.(error);
  }

  onBodySent(chunk: unknown): void {
    if (this.#discarded === undefined) this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    if (this.#discarded === undefined) this.#handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#client = client;
  }
}

/** What the caller gets of headers in undici's raw form. */
const seenBy = (headers: unknown): unknown => (Array.isArray(headers) ? withoutOwnHeaders(headers) : headers);

/** The value of one header in undici's raw form: an array of alternating names and values, as buffers or strings. */
export function rawHeader(headers: unknown, wanted: string): string | undefined {
  if (!Array.isArray(headers)) return undefined;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] as Buffer | string;
    if (name.length === wanted.length && name.toString().toLowerCase() === wanted) return String(headers[index + 1]);
  }
  return undefined;
}
