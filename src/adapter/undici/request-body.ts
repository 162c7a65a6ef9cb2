import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { markCallersError } from './handler.js';
import { isMockActive } from './internals.js';

/** The body, if it is a stream. */
export function bodyOf({ body }: Dispatcher.DispatchOptions): Readable | undefined {
  const stream = body as Partial<Readable> | null | undefined;
  const isStream = typeof stream === 'object' && typeof stream?.pipe === 'function' && typeof stream.on === 'function';
  return isStream ? (stream as Readable) : undefined;
}

/**
 * The property, in the options of a request by `createFetch`, with the body as its caller passed it. `fetch` itself passes on iterators
 * only.
 */
const callersBody = Symbol('body');

/** `dispatcher` for one request of `fetch`, whose body is still as the caller gave it. */
export function dispatcherKnowing(dispatcher: Dispatcher, body: unknown): Pick<Dispatcher, 'dispatch'> {
  return {
    dispatch: (options, handler) =>
      // A redirect may have made a GET without a body of the request.
      dispatcher.dispatch(
        options.body == null ? options : ({ ...options, [callersBody]: body } as typeof options),
        handler,
      ),
    // undici's `fetch` reads this.
    get isMockActive() {
      return isMockActive(dispatcher);
    },
  } as Pick<Dispatcher, 'dispatch'>;
}

/** The request as its key sees it: with the body that was given. */
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
