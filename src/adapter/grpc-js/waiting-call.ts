import { status } from '@grpc/grpc-js';
import { type Balancer, isEvenkeelError, type Lease, outcomes } from '../../index.js';
import { PickFailure, type Waiter } from './admission.js';
import type { PodConnection } from './pod-connection.js';

type Outside = Balancer<PodConnection>['outside'];

/** Error codes with which a call fails at once, because waiting longer would not help it. */
const fullCodes: ReadonlySet<string> = new Set(['EVENKEEL_OVERLOAD', 'EVENKEEL_TOO_LATE', 'EVENKEEL_QUEUE_FULL']);

/** A call that could not be placed at once. It waits in grpc-js, which tries it again, or for the limit on running calls. */
export class WaitingCall implements Waiter {
  /** Since when the call has waited for an endpoint, a time of the balancer's clock. */
  sinceMs: number | undefined;
  /** The call's place in the queue for the limit on running calls, until it is placed. */
  limit: LimitPlace | undefined;
  /** The balancer's counters of waiting calls, in which the call is counted while it waits in grpc-js. */
  #outside: Outside | undefined;
  #outsideSinceMs = 0;

  /** Whether the call waits in grpc-js. */
  get isWaiting(): boolean {
    return this.#outside !== undefined;
  }

  /** Counts the call as waiting: grpc-js keeps it until there may be an endpoint for it. */
  waits({ outside }: Balancer<PodConnection>): void {
    if (this.#outside === outside) return;
    this.waited(undefined);
    this.#outside = outside;
    this.#outsideSinceMs = outside.began();
  }

  /** Counts the call as no longer waiting in grpc-js. @param served As for `OutsideCalls.ended`. */
  waited(served: boolean | undefined): void {
    const outside = this.#outside;
    this.#outside = undefined;
    outside?.ended(this.#outsideSinceMs, served);
  }

  /** The call has ended. If it succeeded, it was waiting only for a further attempt. */
  callEnded(code: status): void {
    this.waited(code === status.OK ? undefined : false);
    this.limit?.leave();
  }
}

/**
 * The place of a call that waits for the limit on running calls, in the balancer's own waiting room: it is served by priority, and shed
 * when it has to be. grpc-js, where other calls wait, tries all of them again in order of arrival.
 */
export class LimitPlace {
  /** Why the call fails instead of waiting; undefined if it may wait. */
  refusal: PickFailure | undefined;
  #lease: Lease<PodConnection> | undefined;
  #hasLeft = false;
  readonly #leaving = new AbortController();

  /** @param settled Called when the call has a lease to take, or was refused. */
  constructor(acquire: (signal: AbortSignal) => Promise<Lease<PodConnection>>, settled: () => void) {
    acquire(this.#leaving.signal).then(
      (lease) => {
        if (this.#hasLeft) {
          lease.end(outcomes.notStarted);
          return;
        }
        this.#lease = lease;
        settled();
      },
      (error: unknown) => {
        if (this.#hasLeft || !isEvenkeelError(error)) return;
        const isFull = fullCodes.has(error.code);
        this.refusal = new PickFailure(error, isFull ? status.RESOURCE_EXHAUSTED : status.UNAVAILABLE, isFull);
        settled();
      },
    );
  }

  get isWaiting(): boolean {
    return this.#lease === undefined && this.refusal === undefined;
  }

  take(): Lease<PodConnection> | undefined {
    const lease = this.#lease;
    this.#lease = undefined;
    return lease;
  }

  /** The call has ended and leaves the queue. */
  leave(): void {
    this.#hasLeft = true;
    this.take()?.end(outcomes.notStarted);
    if (this.refusal === undefined) this.#leaving.abort();
  }
}
