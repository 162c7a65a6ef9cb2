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

/** The option by which `createFetch` keeps the body as its caller passed it, because `fetch` itself passes only iterators on. */
const callersBody = Symbol('body');

/** A dispatcher for one request of `fetch`, which adds the body as the caller passed it to the request's options. */
export function dispatcherKnowing(dispatcher: Dispatcher, body: unknown): Pick<Dispatcher, 'dispatch'> {
  return {
    dispatch: (options, handler) =>
      // A redirect may have turned the request into a GET without a body.
      dispatcher.dispatch(
        options.body == null ? options : ({ ...options, [callersBody]: body } as typeof options),
        handler,
      ),
    // undici's `fetch` reads this property of a dispatcher.
    get isMockActive() {
      return isMockActive(dispatcher);
    },
  } as Pick<Dispatcher, 'dispatch'>;
}

/** The request's options for the function that computes its key: the body in them is the one that the caller passed. */
export function withCallersBody(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const body = (options as { readonly [callersBody]?: unknown })[callersBody];
  return body === undefined ? options : { ...options, body: body as never };
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
