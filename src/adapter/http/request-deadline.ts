import { type Clock, EvenkeelError, endpointAddress, isEvenkeelError, type Lease } from '../../index.js';
import {
  checkNumber,
  ignoreRejection,
  type Option,
  optionError,
  type SharedTimer,
  type SharedTimers,
  shorter,
  type Timed,
  type TriedEndpoints,
} from '../kit/index.js';

/** Returns how long a request may take, in ms; undefined = no limit. */
export type DeadlineOf<R> = (request: R) => number | undefined;

/** The longest deadline of a request, in ms. */
const MAX_DEADLINE_MS = 86_400_000;

/**
 * Returns the function that computes the deadline of each request. Throws EVENKEEL_OPTION for an invalid `deadlineMs`; so does the returned
 * function if the application's function returns an invalid value.
 */
export function deadlineRule<R>(deadlineMs: unknown): DeadlineOf<R> {
  if (typeof deadlineMs === 'function') {
    return (request) => {
      const limitMs: unknown = deadlineMs(request);
      ignoreRejection(limitMs);
      if (limitMs === undefined || limitMs === Number.POSITIVE_INFINITY) return undefined;
      // A deadline that the caller computed may have passed already. The request must then end immediately, rather than run without a
      // limit.
      if (typeof limitMs === 'number' && limitMs <= 0) return 1;
      return checkNumber('deadlineMs()', limitMs, 0, { above: 0, max: MAX_DEADLINE_MS });
    };
  }
  if (typeof deadlineMs !== 'number') throw optionError('deadlineMs', 'a number or a function', deadlineMs);
  const limitMs = checkNumber('deadlineMs', deadlineMs, 0, { min: 1, max: MAX_DEADLINE_MS });
  return () => limitMs;
}

/** The option `deadlineMs`: a number, or a function of the request. */
export const deadlineOption = <R>(): Option<DeadlineOf<R> | undefined> => ({
  default: undefined,
  bounds: { min: 1, max: MAX_DEADLINE_MS },
  check: (_name, value) => deadlineRule<R>(value),
});

/** The point in time at which a request has to be over. */
export class RequestDeadline {
  /** How long the request may take as a whole, in ms. */
  readonly limitMs: number;
  readonly #dueMs: number;
  readonly #clock: Clock;
  readonly #timer: SharedTimer;

  /**
   * @param ownMs The request's own deadline, in ms. @param inheritedMs The rest of the deadline of the request that is being served. It
   * differs from request to request, so its timer may be late by a sixteenth; the deadline sent to the pod is exact.
   */
  constructor(
    { clock, timers }: { readonly clock: Clock; readonly timers: SharedTimers },
    ownMs: number | undefined,
    inheritedMs: number | undefined,
    timed: Timed,
  ) {
    const limitMs = shorter(ownMs, inheritedMs) as number;
    this.limitMs = limitMs;
    this.#clock = clock;
    this.#dueMs = clock.now() + limitMs;
    this.#timer = limitMs === ownMs ? timers.start(limitMs, timed) : timers.startAbout(limitMs, timed);
  }

  /** How much time the request has left, in ms; 0 or less once the deadline has passed. */
  get remainingMs(): number {
    return this.#dueMs - this.#clock.now();
  }

  cancel(): void {
    this.#timer.cancel();
  }
}

/** A request, or one of its attempts, that is running when its deadline passes. */
interface Running {
  readonly lease: Lease<unknown> | undefined;
  readonly stage: 'waiting' | 'connecting' | 'sent' | 'answered';
}

export interface MissedDeadline {
  readonly origin: string;
  readonly method: string;
  readonly limitMs: number;
  readonly running: readonly Running[];
  readonly tried: TriedEndpoints<unknown> | undefined;
}

/**
 * Creates the error of a request at its deadline. It says which endpoint the request waited for, how far the request got, and where it was
 * tried before.
 */
export function deadlineError({ origin, method, limitMs, running, tried }: MissedDeadline): EvenkeelError {
  const runningText = running.map(describe).join(' and ');
  const present = new Set(running.map(({ lease }) => lease?.subchannel));
  const before = [...(tried?.avoid ?? [])].filter((subchannel) => !present.has(subchannel));
  const earlier =
    before.length === 0 ? '' : `; before that ${before.map(({ endpoint }) => endpointAddress(endpoint)).join(', ')}`;
  const message = `${origin}: ${method} did not finish within ${Math.round(limitMs)} ms: ${runningText}${earlier}`;
  const endpoint = running.find(({ lease }) => lease !== undefined)?.lease?.endpoint;
  return new EvenkeelError(
    'EVENKEEL_DEADLINE',
    message,
    endpoint === undefined ? {} : { endpoint: endpointAddress(endpoint) },
  );
}

export function isDeadlineError(error: unknown): boolean {
  return isEvenkeelError(error, 'EVENKEEL_DEADLINE');
}

function describe({ lease, stage }: Running): string {
  if (lease === undefined) return 'it waited for an endpoint';
  const address = endpointAddress(lease.endpoint);
  if (stage === 'connecting') return `it waited for a connection to ${address}`;
  return stage === 'sent' ? `no answer from ${address}` : `${address} was still answering`;
}
