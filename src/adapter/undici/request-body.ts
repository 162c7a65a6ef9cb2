import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { markCallersError } from './handler.js';
import { isMockActive } from './internals.js';

/** The body of a request, if it is a stream. */
export function bodyOf({ body }: Dispatcher.DispatchOptions): Readable | undefined {
  const stream = body as Partial<Readable> | null | undefined;
  const isStream = typeof stream === 'object' && typeof stream?.pipe === 'function' && typeof stream.on === 'function';
  return isStream ? (stream as Readable) : undefined;
}

/**
 * A body of `fetch` in a form that sending does not use up; undefined if there is none. Bytes are copied, as `fetch` does, because the caller
 * may reuse its buffer.
 */
export function lastingBodyOf(body: unknown): string | Buffer | undefined {
  if (typeof body === 'string') return body;
  if (body instanceof URLSearchParams) return String(body);
  if (ArrayBuffer.isView(body)) return Buffer.from(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
  return body instanceof ArrayBuffer ? Buffer.from(new Uint8Array(body)) : undefined;
}

/**
 * A dispatcher for one request of `fetch` that sends `body` in place of the iterator that `fetch` makes of it. An iterator is used up when
 * it is sent, so such a request could not be sent to another pod, even if the first pod says that it processed nothing.
 */
export function dispatcherWithBody(dispatcher: Dispatcher, body: string | Buffer): Pick<Dispatcher, 'dispatch'> {
  return {
    dispatch: (options, handler) =>
      // A redirect may have turned the request into a GET without a body.
      dispatcher.dispatch(options.body == null ? options : { ...options, body }, handler),
    // undici's `fetch` reads this property of a dispatcher.
    get isMockActive() {
      return isMockActive(dispatcher);
    },
  } as Pick<Dispatcher, 'dispatch'>;
}

/**
 * Records what an iterable body (not a stream) throws. undici passes such an error on unchanged, and if the body comes from another
 * connection (in a proxy) it looks like an error of the request. A stream remembers its own error.
 */
export function withWatchedBody(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const body = options.body as Partial<AsyncIterable<unknown>> | null | undefined;
  if (body === null || typeof body !== 'object') return options;
  if (typeof body[Symbol.asyncIterator] !== 'function' || bodyOf(options) !== undefined) return options;
  const parts = body as AsyncIterable<unknown>;
  return { ...options, body: { [Symbol.asyncIterator]: () => watched(parts) } as never };
}

async function* watched(parts: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  try {
    yield* parts;
  } catch (error) {
    markCallersError(error);
    throw error;
  }
}
