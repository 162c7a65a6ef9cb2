import { EvenkeelError } from '../errors.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { Lease } from './lease.js';

/** What a waiting caller asks for. */
export interface WaitRequest<C> {
  readonly key: string | undefined;
  readonly avoid: ReadonlySet<Subchannel<C>> | undefined;
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number;
}

interface Waiter<C> {
  readonly request: WaitRequest<C>;
  readonly timer: Timer;
  readonly onAbort: () => void;
  readonly resolve: (lease: Lease<C>) => void;
  readonly reject: (reason: unknown) => void;
}

/** What the room needs from its balancer. */
export interface WaitingRoomOwner<C> {
  readonly clock: Clock;
  readonly limit: number;
  tryPick(key: string | undefined, avoid: ReadonlySet<Subchannel<C>> | undefined): Lease<C> | undefined;
  /** The error for a caller who waited `timeoutMs` in vain. */
  waitedInVain(timeoutMs: number): EvenkeelError;
}

/**
 * Callers parked until something can be picked: first come first served, a bounded number, each for a bounded time.
 * They are picked for anew each time, so nobody is bound to an endpoint that was good when he came.
 */
export class WaitingRoom<C> {
  readonly #owner: WaitingRoomOwner<C>;
  // A set keeps the order of arrival and lets anyone leave from the middle in O(1).
  readonly #waiters = new Set<Waiter<C>>();

  constructor(owner: WaitingRoomOwner<C>) {
    this.#owner = owner;
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Rejects with EVENKEEL_QUEUE_FULL at once, with the owner's error after the time, or with the signal's reason. */
  wait(request: WaitRequest<C>): Promise<Lease<C>> {
    const { clock, limit } = this.#owner;
    const { signal, timeoutMs } = request;
    if (this.#waiters.size >= limit) {
      const message = `${limit} callers wait for an endpoint already (maxWaiting)`;
      return Promise.reject(new EvenkeelError('EVENKEEL_QUEUE_FULL', message));
    }
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const waiter: Waiter<C> = {
        request,
        timer: clock.timer(() => {
          if (this.#leave(waiter)) reject(this.#owner.waitedInVain(timeoutMs));
        }, timeoutMs),
        onAbort: () => {
          if (this.#leave(waiter)) reject(signal?.reason);
        },
        resolve,
        reject,
      };
      waiter.timer.ref();
      signal?.addEventListener('abort', waiter.onAbort, { once: true });
      this.#waiters.add(waiter);
    });
  }

  /** Something may be pickable now: serves callers in order until one finds nothing. */
  wake(): void {
    for (const waiter of this.#waiters) {
      const { key, avoid } = waiter.request;
      const lease = this.#owner.tryPick(key, avoid);
      if (lease === undefined) {
        // A caller with a key may wait for one busy endpoint while others are free for those behind him.
        if (key === undefined) return;
        continue;
      }
      this.#leave(waiter);
      waiter.resolve(lease);
    }
  }

  /** Turns everybody away. */
  fail(error: EvenkeelError): void {
    for (const waiter of this.#waiters) {
      this.#leave(waiter);
      waiter.reject(error);
    }
  }

  #leave(waiter: Waiter<C>): boolean {
    waiter.timer.cancel();
    waiter.request.signal?.removeEventListener('abort', waiter.onAbort);
    return this.#waiters.delete(waiter);
  }
}
