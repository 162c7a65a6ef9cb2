import { type AcquireOptions, type EvenkeelError, isEvenkeelError, type Lease, outcomes } from '../../index.js';
import { type AttemptSource, Stopper } from '../kit/index.js';
import type { PodConnection } from './pod-connection.js';

/**
 * A call that waits for an endpoint, in the balancer's waiting room: there it is served in its turn, by priority, and rejected when it has
 * waited for too long. grpc-js only keeps the call, and tries it again once there is a lease for it to take, or an error.
 */
export class WaitingCall {
  /** Since when the call has waited, a time of the balancer's clock. */
  readonly sinceMs: number;
  /** The error with which the balancer rejected the call. */
  error: EvenkeelError | undefined;
  #lease: Lease<PodConnection> | undefined;
  readonly #stopper = new Stopper();

  /** @param settled Called when the call has a lease to take, or was rejected. */
  constructor(
    sinceMs: number,
    balancer: Pick<AttemptSource<PodConnection>, 'acquire'>,
    options: AcquireOptions,
    settled: () => void,
  ) {
    this.sinceMs = sinceMs;
    balancer.acquire(options, this.#stopper).then(
      (lease) => {
        this.#lease = lease;
        if (this.#stopper.isStopped) this.leave();
        else settled();
      },
      (error: unknown) => {
        if (this.#stopper.isStopped || !isEvenkeelError(error)) return;
        this.error = error;
        settled();
      },
    );
  }

  get isWaiting(): boolean {
    return this.#lease === undefined && this.error === undefined;
  }

  take(): Lease<PodConnection> | undefined {
    const lease = this.#lease;
    this.#lease = undefined;
    return lease;
  }

  /** The call waits no longer: it has ended, or fails. */
  leave(): void {
    this.#stopper.stop();
    this.take()?.end(outcomes.notStarted);
  }
}
