import { endpointAddress } from '../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { EvenkeelError } from '../errors.js';
import { offAbort, onAbort, orAborted } from '../runtime/abort-listeners.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import type { Lease } from './lease.js';

/**
 * Ends one `run` at its deadline, whether or not `use` listens. `use` gets a signal that aborts at the deadline and when the
 * caller's signal does. Must be closed.
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
  /** Addresses of the endpoints on which attempts of this call have ended. */
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

  /** The result of `use`, or a rejection if the deadline comes first. */
  async race<T>(lease: Lease<C>, used: T | Promise<T>): Promise<T> {
    this.#lease = lease;
    try {
      return await orAborted(used, this.signal);
    } finally {
      this.#lease = undefined;
      this.#before.push(endpointAddress(lease.endpoint));
    }
  }

  /** The outcome of an attempt that the deadline cut. */
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
    const message = `${this.#name}: the call did not finish within ${this.#limitMs} ms: ${now}${earlier}`;
    this.#missed = new EvenkeelError('EVENKEEL_DEADLINE', message, address === undefined ? {} : { endpoint: address });
    this.#controller.abort(this.#missed);
  }
}

/**
 * The outcome for an endpoint whose call was cut by a deadline of `limitMs`: a timeout, if the endpoint had the call for at
 * least half of that and has not started to respond. Otherwise most of the time was spent on other things.
 */
export function outcomeAtDeadline(heldMs: number, limitMs: number, answered: boolean): Outcome {
  return !answered && 2 * heldMs >= limitMs ? outcomes.timeout : outcomes.cancelled;
}
