import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { RetryPolicy } from '../kit/index.js';

/** The body, if it is a stream. */
export function bodyOf({ body }: Dispatcher.DispatchOptions): Readable | undefined {
  const stream = body as Partial<Readable> | null | undefined;
  const isStream = typeof stream === 'object' && typeof stream?.pipe === 'function' && typeof stream.on === 'function';
  return isStream ? (stream as Readable) : undefined;
}

/** Whether the request may be done twice, and can be: its body is still there once it was sent. */
export function isRepeatable(options: Dispatcher.DispatchOptions, retries: RetryPolicy): boolean {
  const { method, upgrade, idempotent } = options;
  // An upgraded connection belongs to the caller and cannot be replaced by another.
  if (upgrade || method === 'CONNECT') return false;
  return retries.allowsMethod(method) && idempotent !== false && hasLastingBody(options);
}

/** Whether the body is still there once it was sent. */
export function hasLastingBody({ body }: Dispatcher.DispatchOptions): boolean {
  return body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body);
}

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
