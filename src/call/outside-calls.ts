import type { EvenkeelError } from '../errors.js';
import type { CallMeter } from '../observe/live-balancers.js';
import { notify, type Observer } from '../observe/observer.js';
import type { Clock } from '../runtime/clock.js';

interface OutsideCallsOwner {
  /** Undefined while nobody reads metrics. */
  readonly meter: CallMeter | undefined;
  readonly clock: Clock;
  readonly observer: Observer;
  /** A call that is kept outside the balancer found no endpoint. */
  missedEndpoints(): void;
}

/**
 * Counts the calls that wait outside the balancer, in a library that has its own waiting and its own retries, so that snapshots and metrics
 * include them. For adapters of such libraries.
 */
export class OutsideCalls {
  readonly #owner: OutsideCallsOwner;
  #waiting = 0;
  #refused = 0;

  constructor(owner: OutsideCallsOwner) {
    this.#owner = owner;
  }

  /** How many calls wait outside the balancer now. */
  get waiting(): number {
    return this.#waiting;
  }

  /** How many calls outside the balancer got no endpoint. */
  get refused(): number {
    return this.#refused;
  }

  /** A call begins to wait outside the balancer. Returns the time, which `ended` needs. */
  began(): number {
    this.#waiting++;
    this.#owner.missedEndpoints();
    return this.#owner.clock.now();
  }

  /**
   * A call no longer waits outside the balancer. @param served Whether the call got an endpoint; `undefined` = it goes on to wait in the
   * balancer.
   */
  ended(sinceMs: number, served: boolean | undefined): void {
    this.#waiting--;
    const { clock, meter } = this.#owner;
    if (served !== undefined) meter?.waited(clock.now() - sinceMs, served);
  }

  /** A call outside the balancer fails because there is no endpoint for it, whether it waited or not. */
  refuse(error: EvenkeelError): void {
    this.#refused++;
    this.#owner.missedEndpoints();
    notify(this.#owner.observer, 'refused', { error });
  }
}
