import { EvenkeelError, isEvenkeelError } from '../errors.js';
import type { Pool } from '../pool/pool.js';
import type { EndpointFeed } from './endpoint-feed.js';

/** The errors of callers who get no endpoint: what was found, in words. */

export function closedError(): EvenkeelError {
  return new EvenkeelError('EVENKEEL_CLOSED', 'the balancer is closed');
}

export function noEndpointsError(feed: EndpointFeed): EvenkeelError {
  const listed = feed.endpoints?.length ?? 0;
  if (listed > 0) {
    return new EvenkeelError('EVENKEEL_NO_ENDPOINTS', `${feed.name}: none of its ${listed} endpoints is usable`);
  }
  const { error } = feed;
  const why = error === undefined ? '' : `; ${error.message}`;
  return new EvenkeelError('EVENKEEL_NO_ENDPOINTS', `${feed.name}: it has no endpoint${why}`, { cause: error });
}

/** Before the first set. */
export function notStartedError(feed: EndpointFeed, waitedMs: number): EvenkeelError {
  return feed.error ?? new EvenkeelError('EVENKEEL_NOT_READY', `${feed.name}: no answer within ${waitedMs} ms`);
}

/** There are endpoints, but none could take the call. */
export function notReadyError<C>(feed: EndpointFeed, pool: Pool<C>, waitedMs: number): EvenkeelError {
  const states = new Map<string, number>();
  let cause: Error | undefined;
  for (const { subchannel, weight } of pool.members) {
    const { state } = subchannel;
    const isFull = subchannel.inFlight >= subchannel.capacity;
    const found = state !== 'ready' ? state : weight <= 0 ? 'standing by' : isFull ? 'at capacity' : state;
    states.set(found, (states.get(found) ?? 0) + 1);
    cause ??= subchannel.lastError;
  }
  const found = [...states].map(([state, count]) => `${count} ${state}`).join(', ');
  return new EvenkeelError(
    'EVENKEEL_NOT_READY',
    `${feed.name}: no endpoint could take the call within ${waitedMs} ms (${found}${cause ? `; ${cause.message}` : ''})`,
    { cause },
  );
}

/**
 * Errors of TLS that say what is set up wrong, on one side or the other: nobody needs to wait for it to pass. Connecting goes
 * on, so that calls are served again soon after it was put right.
 */
const MISTAKES: ReadonlySet<unknown> = new Set([
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/** Why no endpoint can be connected to before somebody changes something; undefined while any may yet take a call. */
export function misconnectedError<C>(feed: EndpointFeed, pool: Pool<C>): EvenkeelError | undefined {
  let last: EvenkeelError | undefined;
  for (const { subchannel, weight } of pool.members) {
    if (weight <= 0) continue;
    const { state, lastError } = subchannel;
    const { code } = (lastError?.cause ?? {}) as { readonly code?: unknown };
    if (state === 'ready' || !isEvenkeelError(lastError, 'EVENKEEL_CONNECT') || !MISTAKES.has(code)) return undefined;
    last = lastError;
  }
  if (last === undefined) return undefined;
  const details = { cause: last, ...(last.endpoint !== undefined && { endpoint: last.endpoint }) };
  return new EvenkeelError(
    'EVENKEEL_NOT_READY',
    `${feed.name}: no endpoint can be connected to (${last.message})`,
    details,
  );
}
