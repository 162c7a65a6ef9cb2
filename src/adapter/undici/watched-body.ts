import type { Dispatcher } from 'undici';
import { bodyOf } from './dispatch-options.js';

/** What bodies of callers threw while they were sent. */
const thrown = new WeakSet<object>();

/**
 * With a body that is iterated over, other than a stream, watched for what it throws: undici passes that on as it is, and
 * it may look just like the error of a connection when the body comes from one (a proxy's). A stream keeps its error.
 */
export function withWatchedBody(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const body = options.body as Partial<AsyncIterable<unknown>> | null | undefined;
  if (body === null || typeof body !== 'object') return options;
  if (typeof body[Symbol.asyncIterator] !== 'function' || bodyOf(options) !== undefined) return options;
  const parts = body as AsyncIterable<unknown>;
  return { ...options, body: { [Symbol.asyncIterator]: () => watched(parts) } as never };
}

/** Whether `error` came from the body of a request, and so says nothing of the pod. */
export function isBodyError(error: Error): boolean {
  return thrown.has(error);
}

async function* watched(parts: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  try {
    yield* parts;
  } catch (error) {
    if (typeof error === 'object' && error !== null) thrown.add(error);
    throw error;
  }
}
