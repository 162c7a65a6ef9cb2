import { status } from '@grpc/grpc-js';
import { isEvenkeelError, type Lease, outcomes } from '../../index.js';
import type { PodConnection } from './pod-connection.js';
import { Refusal } from './refusal.js';

/**
 * The place of a call that waits for the limit on running calls, in the balancer's own waiting room: by priority, and shed when it
 * has to be. grpc-js, where other calls wait, tries them all again in order of arrival.
 */
export class LimitPlace {
  /** Why it is turned away. */
  refusal: Refusal | undefined;
  #lease: Lease<PodConnection> | undefined;
  #hasLeft = false;
  readonly #leaving = new AbortController();

  /** @param settled There is something to take, or a refusal. */
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
        this.refusal = new Refusal(error, isFull ? status.RESOURCE_EXHAUSTED : status.UNAVAILABLE, isFull);
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

  /** The call is over. */
  leave(): void {
    this.#hasLeft = true;
    this.take()?.end(outcomes.notStarted);
    if (this.refusal === undefined) this.#leaving.abort();
  }
}

/** What waiting longer does not help against. */
const fullCodes: ReadonlySet<string> = new Set(['EVENKEEL_OVERLOAD', 'EVENKEEL_TOO_LATE', 'EVENKEEL_QUEUE_FULL']);
