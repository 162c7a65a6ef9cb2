import { endpointAddress } from '../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { EvenkeelError } from '../errors.js';
import { offAbort, onAbort, orAborted } from '../runtime/abort-listeners.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import type { Lease } from './lease.js';

/**
 * Ends one `run` at its deadline, even if the application's `use` ignores its signal. That signal aborts at the deadline, and when the
 * caller's own signal aborts. Must be closed.
 */
export class CallDeadline<C> {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #name: string;
  readonly #limitMs: number;
  readonly #dueMs: number;
  readonly #timer: Timer;
  readonly #caller: AbortSignal | undefined;
  readonly #callerAborted = (): void => this.#controller.abort(this.#caller?.reason);
  /** The lease of the running attempt. */
  #lease: Lease<C> | undefined;
  /** Addresses of the endpoints on which earlier attempts of this call have ended, for the error message. */
  readonly #before: string[] = [];
  #missed: EvenkeelError | undefined;

  constructor(clock: Clock, name: string, limitMs: number, caller: AbortSignal | undefined) {
    this.#clock = clock;
    this.#name = name;
    this.#limitMs = limitMs;
    this.#dueMs = clock.now() + limitMs;
    this.#caller = caller;
    this.#timer = deadline(clock, () => this.#miss(), limitMs, 1);
    this.#timer.ref();
    if (caller?.aborted) this.#callerAborted();
    else onAbort(caller, this.#callerAborted);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The time left until the deadline, in ms. */
  get remainingMs(): number {
    return this.#dueMs - this.#clock.now();
  }

  /** Resolves with the result of `use`, or rejects if the deadline comes first. */
  async race<T>(lease: Lease<C>, used: T | Promise<T>): Promise<T> {
    this.#lease = lease;
    try {
      return await orAborted(used, this.signal);
    } finally {
      this.#lease = undefined;
      this.#before.push(endpointAddress(lease.endpoint));
    }
  }

  /** The outcome of an attempt that was cut, by the deadline or by the caller. */
  outcomeOf({ startedMs, answered }: Lease<C>): Outcome {
    if (this.#missed === undefined) return outcomes.cancelled;
    return outcomeAtDeadline(this.#clock.now() - startedMs, this.#limitMs, answered);
  }

  close(): void {
    this.#timer.cancel();
    offAbort(this.#caller, this.#callerAborted);
  }

  #miss(): void {
    const address = this.#lease === undefined ? undefined : endpointAddress(this.#lease.endpoint);
    const now = address === undefined ? 'it waited for an endpoint' : `no answer from ${address}`;
    const earlier = this.#before.length === 0 ? '' : `; before that ${this.#before.join(', ')}`;
    const message = `${this.#name}: the call did not finish within ${Math.round(this.#limitMs)} ms: ${now}${earlier}`;
    this.#missed = new EvenkeelError('EVENKEEL_DEADLINE', message, address === undefined ? {} : { endpoint: address });
    this.#controller.abort(this.#missed);
  }
}

/**
 * The outcome of a call that was cut by a deadline of `limitMs`: a timeout if the endpoint had the call for at least half of that time and
 * had not started to respond. Otherwise the time was mostly spent elsewhere, and the outcome is `cancelled`.
 */
export function outcomeAtDeadline(heldMs: number, limitMs: number, answered: boolean): Outcome {
  return !answered && 2 * heldMs >= limitMs ? outcomes.timeout : outcomes.cancelled;
}
