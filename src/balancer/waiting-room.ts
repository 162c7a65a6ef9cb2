import { EvenkeelError } from '../errors.js';
import type { Subchannel } from '../pool/subchannel.js';
import { offAbort, onAbort } from '../runtime/abort-listeners.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
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

/** What the waiting room needs from its balancer. */
export interface WaitingRoomOwner<C> {
  readonly clock: Clock;
  readonly limit: number;
  tryPick(key: string | undefined, avoid: ReadonlySet<Subchannel<C>> | undefined): Lease<C> | undefined;
  /** The error for a caller that got nothing within `timeoutMs`. */
  waitedInVain(timeoutMs: number): EvenkeelError;
}

/** How many unsuccessful tries with keys are made, at the head and further back, each time something may be pickable. */
const MAX_MISSES = 8;

/**
 * Callers waiting until something can be picked: first come first served, limited in number and time. Each try picks again, so
 * no caller is tied to an endpoint that was good when it arrived.
 */
export class WaitingRoom<C> {
  readonly #owner: WaitingRoomOwner<C>;
  // A Set keeps the order of arrival and removes from the middle in O(1).
  readonly #waiters = new Set<Waiter<C>>();
  /**
   * Where `#wakeFurther` continues. Only while there is something to continue with: an idle iterator keeps every former state
   * of the set, and all callers that ever waited, in memory.
   */
  #further: Iterator<Waiter<C>> | undefined;
  #waking = false;

  constructor(owner: WaitingRoomOwner<C>) {
    this.#owner = owner;
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Rejects with EVENKEEL_QUEUE_FULL immediately, with the owner's error after the timeout, or with the signal's reason. */
  wait(request: WaitRequest<C>): Promise<Lease<C>> {
    const { clock, limit } = this.#owner;
    const { signal, timeoutMs } = request;
    if (this.#waiters.size >= limit) {
      const message = `${limit} callers are already waiting for an endpoint (maxWaiting)`;
      return Promise.reject(new EvenkeelError('EVENKEEL_QUEUE_FULL', message));
    }
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const waiter: Waiter<C> = {
        request,
        timer: deadline(
          clock,
          () => {
            if (this.#leave(waiter)) reject(this.#owner.waitedInVain(timeoutMs));
          },
          timeoutMs,
        ),
        onAbort: () => {
          if (this.#leave(waiter)) reject(signal?.reason);
        },
        resolve,
        reject,
      };
      waiter.timer.ref();
      onAbort(signal, waiter.onAbort);
      this.#waiters.add(waiter);
    });
  }

  /** Something may be pickable now: serves callers in order of arrival. */
  wake(): void {
    // Called from within a pick: the caller being picked for must not be served twice.
    if (this.#waking) return;
    this.#waking = true;
    this.#wakeInOrder();
    this.#waking = false;
  }

  #wakeInOrder(): void {
    let misses = 0;
    for (const waiter of this.#waiters) {
      if (this.#serve(waiter)) continue;
      // If there is nothing for a caller without a key, there is nothing for any other.
      if (waiter.request.key === undefined) return;
      // A caller with a key may wait for a busy endpoint while others are free for callers behind it.
      if (++misses === MAX_MISSES) {
        this.#wakeFurther();
        return;
      }
    }
  }

  /**
   * This is called at the end of every call: it must not try each of a thousand keys every time. Beyond the first few it
   * continues where it stopped last time.
   */
  #wakeFurther(): void {
    let misses = 0;
    for (let left = this.#waiters.size; left > 0 && misses < MAX_MISSES; left--) {
      this.#further ??= this.#waiters.values();
      let next = this.#further.next();
      if (next.done) {
        this.#further = this.#waiters.values();
        next = this.#further.next();
      }
      if (next.done) return;
      if (!this.#serve(next.value)) misses++;
    }
  }

  #serve(waiter: Waiter<C>): boolean {
    const { key, avoid } = waiter.request;
    const lease = this.#owner.tryPick(key, avoid);
    if (lease === undefined) return false;
    this.#leave(waiter);
    waiter.resolve(lease);
    return true;
  }

  /** Rejects all callers. */
  fail(error: EvenkeelError): void {
    for (const waiter of this.#waiters) {
      this.#leave(waiter);
      waiter.reject(error);
    }
  }

  #leave(waiter: Waiter<C>): boolean {
    waiter.timer.cancel();
    offAbort(waiter.request.signal, waiter.onAbort);
    const left = this.#waiters.delete(waiter);
    if (this.#waiters.size === 0) this.#further = undefined;
    return left;
  }
}
