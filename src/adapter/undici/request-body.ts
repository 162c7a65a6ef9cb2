import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { RetryPolicy } from '../kit/index.js';

/** The body, if it is a stream. */
export function bodyOf({ body }: Dispatcher.DispatchOptions): Readable | undefined {
  const stream = body as Partial<Readable> | null | undefined;
  const isStream = typeof stream === 'object' && typeof stream?.pipe === 'function' && typeof stream.on === 'function';
  return isStream ? (stream as Readable) : undefined;
}

/**
 * Tells when the body fails of a request that undici does not have yet: undici watches it only while it has the request. Returns
 * what ends that.
 */
export function watchBody(options: Dispatcher.DispatchOptions, failed: (error: Error) => void): () => void {
  const body = bodyOf(options);
  body?.on('error', failed);
  return () => body?.off('error', failed);
}

/** Whether the request may be sent twice, and can be: its body is still there after it was sent. */
export function isRepeatable(options: Dispatcher.DispatchOptions, retries: RetryPolicy): boolean {
  const { method, upgrade, idempotent } = options;
  // An upgraded connection belongs to the caller; another cannot take its place.
  if (upgrade || method === 'CONNECT') return false;
  return retries.allowsMethod(method) && idempotent !== false && hasLastingBody(options);
}

/** Whether the body is still there after it was sent. */
export function hasLastingBody({ body }: Dispatcher.DispatchOptions): boolean {
  return body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body);
}

/** Errors that callers' bodies threw while they were sent. */
const thrown = new WeakSet<object>();

/**
 * Watches a body that is iterated over, and is no stream, for what it throws. undici passes that on unchanged, and if the body comes
 * from another connection (in a proxy) it looks like an error of ours. A stream remembers its own error.
 */
export function withWatchedBody(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const body = options.body as Partial<AsyncIterable<unknown>> | null | undefined;
  if (body === null || typeof body !== 'object') return options;
  if (typeof body[Symbol.asyncIterator] !== 'function' || bodyOf(options) !== undefined) return options;
  const parts = body as AsyncIterable<unknown>;
  return { ...options, body: { [Symbol.asyncIterator]: () => watched(parts) } as never };
}

/** Whether `error` came from the body of a request, and so says nothing about the pod. */
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
