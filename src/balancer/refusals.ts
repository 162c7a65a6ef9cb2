import { EvenkeelError, isEvenkeelError } from '../errors.js';
import type { CallLimit } from '../limit/call-limit.js';
import type { EventCounts } from '../observe/event-counts.js';
import { isLasting } from '../pool/lasting-error.js';
import type { Pool } from '../pool/pool.js';
import type { EndpointFeed } from './endpoint-feed.js';

/** Creates the errors that say why a call got no endpoint. */
export class Refusals<C> {
  readonly #feed: EndpointFeed;
  readonly #pool: Pool<C>;
  readonly #events: EventCounts;
  readonly #waitsForEndpoints: boolean;
  /** Whether the stages left no endpoint of the last set. */
  isEmpty = false;

  constructor(feed: EndpointFeed, pool: Pool<C>, events: EventCounts, waitsForEndpoints: boolean) {
    this.#feed = feed;
    this.#pool = pool;
    this.#events = events;
    this.#waitsForEndpoints = waitsForEndpoints;
  }

  /** The error for callers while the set is empty; undefined if the set is not empty, or if callers wait for endpoints. */
  get ofEmptySet(): EvenkeelError | undefined {
    return this.isEmpty && !this.#waitsForEndpoints ? noEndpointsError(this.#feed) : undefined;
  }

  /**
   * The error for callers while every endpoint refuses connections for a reason that only a change of configuration fixes; undefined
   * otherwise.
   */
  get byAll(): EvenkeelError | undefined {
    return refusedByAllError(this.#feed, this.#pool);
  }

  /** The error for a call for which every endpoint was dialed, and each refused. */
  get byEach(): EvenkeelError {
    const [first] = this.#pool.members;
    return unreachableError(this.#feed, first?.subchannel.lastError as Error);
  }

  /** The error for a call that would wait for nothing; undefined if the call may get an endpoint soon. */
  get atOnce(): EvenkeelError | undefined {
    const { error, endpoints } = this.#feed;
    if (this.isEmpty && !this.#waitsForEndpoints) return noEndpointsError(this.#feed);
    if (endpoints === undefined) return error?.permanent ? error : undefined;
    return this.byAll;
  }

  /** The error for a call that waited `waitedMs` and got no endpoint. */
  after(waitedMs: number): EvenkeelError {
    if (this.#feed.endpoints === undefined) return notStartedError(this.#feed, waitedMs);
    return this.isEmpty ? noEndpointsError(this.#feed) : notReadyError(this.#feed, this.#pool, this.#events, waitedMs);
  }
}

export function closedError(): EvenkeelError {
  return new EvenkeelError('EVENKEEL_CLOSED', 'the balancer is closed');
}

function noEndpointsError(feed: EndpointFeed): EvenkeelError {
  const listed = feed.endpoints?.length ?? 0;
  if (listed > 0) {
    return new EvenkeelError('EVENKEEL_NO_ENDPOINTS', `${feed.name}: none of its ${listed} endpoints is usable`);
  }
  const { error, emptyReason } = feed;
  const reason = emptyReason?.startsWith(`${feed.name}: `) ? emptyReason.slice(feed.name.length + 2) : emptyReason;
  const why = reason === undefined ? '' : `; ${reason}`;
  return new EvenkeelError('EVENKEEL_NO_ENDPOINTS', `${feed.name}: it has no endpoint${why}`, { cause: error });
}

/** The error for a call that got no endpoint because no set was published yet. */
export function notStartedError(feed: EndpointFeed, waitedMs: number): EvenkeelError {
  return feed.error ?? new EvenkeelError('EVENKEEL_NOT_READY', `${feed.name}: no answer within ${waitedMs} ms`);
}

/** The error for a call that no endpoint could take in time, although there are endpoints. It says what state they are in. */
function notReadyError<C>(feed: EndpointFeed, pool: Pool<C>, events: EventCounts, waitedMs: number): EvenkeelError {
  const states = new Map<string, number>();
  let cause: Error | undefined;
  /** Why the first of the endpoints on standby is ejected, if one is. */
  let ejectedBecause: string | undefined;
  for (const { subchannel, weight } of pool.members) {
    const { state } = subchannel;
    const isFull = subchannel.inFlight >= subchannel.capacity;
    const found = state !== 'ready' ? state : weight <= 0 ? 'on standby' : isFull ? 'at capacity' : state;
    states.set(found, (states.get(found) ?? 0) + 1);
    cause ??= subchannel.lastError;
    if (found === 'on standby') ejectedBecause ??= events.ejectedBecause(subchannel.endpoint.key);
  }
  const found = [...states].map(([state, count]) => `${count} ${state}`);
  const reason = cause?.message ?? ejectedBecause;
  return new EvenkeelError(
    'EVENKEEL_NOT_READY',
    `${feed.name}: no endpoint could take the call within ${waitedMs} ms (${found.join(', ')}${reason === undefined ? '' : `; ${reason}`})`,
    { cause },
  );
}

/** The error for a call that is shed because it has waited too long while as many calls run as the limit allows. */
export function overloadError(feed: EndpointFeed, limit: CallLimit, waitedMs: number): EvenkeelError {
  const waited = waitedMs === 0 ? 'others wait' : `this one waited ${Math.round(waitedMs)} ms`;
  return new EvenkeelError(
    'EVENKEEL_OVERLOAD',
    `${feed.name}: overloaded: ${limit.running} of ${limit.max} calls are running, and ${waited} (limit)`,
  );
}

/** The error for a call that still waits for the limit while less is left of its deadline than a response takes. */
export function tooLateError(feed: EndpointFeed, limit: CallLimit, leftMs: number): EvenkeelError {
  const left = `${Math.max(0, Math.round(leftMs))} ms are left of its deadline, and an answer takes longer`;
  return new EvenkeelError(
    'EVENKEEL_TOO_LATE',
    `${feed.name}: overloaded: ${limit.running} of ${limit.max} calls are running; this one waits, ${left} (limit)`,
  );
}

/**
 * The error while every endpoint refuses connections for a reason that only a change of configuration fixes (see `markLasting`); undefined
 * while some endpoint might still take a call.
 */
function refusedByAllError<C>(feed: EndpointFeed, pool: Pool<C>): EvenkeelError | undefined {
  let last: Error | undefined;
  for (const { subchannel, weight } of pool.members) {
    if (weight <= 0) continue;
    const { state, lastError } = subchannel;
    if (state === 'ready' || lastError === undefined) return undefined;
    // With TLS 1.3 a connection opens before the server has checked the client's certificate. If the server rejects that, the connection is
    // closed again, which looks like EVENKEEL_CONNECT with a lasting cause.
    const isRefusal = isEvenkeelError(lastError, 'EVENKEEL_CONNECT') && isLasting(lastError.cause);
    if (!isRefusal && !isLasting(lastError)) return undefined;
    last = lastError;
  }
  return last && unreachableError(feed, last);
}

/** The error for a call while no endpoint can be connected to. @param last Why one of them cannot. */
function unreachableError(feed: EndpointFeed, last: Error): EvenkeelError {
  const { message } = last;
  const { cause, endpoint } = isEvenkeelError(last) ? last : { cause: last, endpoint: undefined };
  // A function of the application failed, such as one that provides a certificate. Only the application can fix that, so the caller gets
  // its error.
  if (isEvenkeelError(cause, 'EVENKEEL_OPTION')) {
    return new EvenkeelError('EVENKEEL_OPTION', cause.message, { cause: cause.cause });
  }
  return new EvenkeelError('EVENKEEL_CONNECT', `${feed.name}: no endpoint can be connected to (${message})`, {
    cause,
    ...(endpoint !== undefined && { endpoint }),
  });
}
