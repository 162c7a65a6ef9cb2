import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { LegacyHandler } from './legacy-call.js';
import type { ModernHandler } from './modern-call.js';

/** Lets a handler of the older form be served by an undici that knows only the newer one. */
export class ModernisedHandler implements ModernHandler {
  readonly #handler: LegacyHandler;

  constructor(handler: LegacyHandler) {
    this.#handler = handler;
  }

  onRequestStart(controller: Dispatcher.DispatchController, context?: unknown): void {
    this.#handler.onConnect?.((reason) => controller.abort(reason as Error), context);
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText = '',
  ): void {
    const raw = rawList(controller.rawHeaders, headers);
    if (this.#handler.onHeaders?.(status, raw, () => controller.resume(), statusText) === false) controller.pause();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#handler.onData?.(chunk) === false) controller.pause();
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#handler.onComplete?.(rawList(controller.rawTrailers, trailers));
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    this.#handler.onUpgrade?.(status, rawList(controller.rawHeaders, headers), socket);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#handler.onError === undefined) throw error;
    this.#handler.onError(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }
}

/** A handler of either form as one of the newer. */
export function modernised(handler: Dispatcher.DispatchHandler): ModernHandler {
  return typeof handler.onRequestStart === 'function'
    ? (handler as ModernHandler)
    : new ModernisedHandler(handler as LegacyHandler);
}

/**
 * Headers as `[name, value, …]` of buffers. From an object, each value of a repeated header gets a pair of its own:
 * a list in one element would come out as one joined value, which breaks Set-Cookie.
 */
function rawList(raw: unknown, headers: IncomingHttpHeaders | undefined): unknown[] {
  if (Array.isArray(raw)) return raw;
  const list: Buffer[] = [];
  for (const [name, value] of Object.entries((raw ?? headers ?? {}) as IncomingHttpHeaders)) {
    if (value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) {
      list.push(Buffer.from(name, 'latin1'), Buffer.from(item, 'latin1'));
    }
  }
  return list;
}
