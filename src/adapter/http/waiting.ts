import type { Balancer, Clock } from '../../index.js';

/** Counts the requests of one entry point that wait for a pod. */
export class WaitingRequests {
  #count = 0;
  #allServed: (() => void) | undefined;

  get none(): boolean {
    return this.#count === 0;
  }

  get count(): number {
    return this.#count;
  }

  add(): void {
    this.#count++;
  }

  /** A request stopped waiting, for whatever reason. True if it was the last. */
  remove(): boolean {
    if (--this.#count > 0) return false;
    this.#allServed?.();
    return true;
  }

  /** Resolves when no request is waiting. Called once. */
  async allServed(): Promise<void> {
    if (this.none) return;
    await new Promise<void>((resolve) => {
      this.#allServed = resolve;
    });
  }
}

/** What is needed to close an entry point once the requests that wait were served. */
export interface ClosingParts {
  readonly balancer: Balancer<unknown>;
  readonly waiting: WaitingRequests;
  readonly clock: Clock;
  /** How long closing may take, in ms. */
  readonly drainTimeoutMs: number;
}

/**
 * Closes the balancer of an entry point that accepts no new requests. Waiting requests get a pod first, as they would from an Agent of
 * the HTTP library. When the time is over, the remaining ones are refused and running ones are cut.
 */
export async function closeWhenServed({ balancer, waiting, clock, drainTimeoutMs }: ClosingParts): Promise<void> {
  if (waiting.none) {
    await balancer.close();
    return;
  }
  const late = new AbortController();
  const isLate = new Promise<void>((resolve) => {
    late.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const timer = Number.isFinite(drainTimeoutMs) ? clock.timer(() => late.abort(), drainTimeoutMs) : undefined;
  timer?.ref();
  await Promise.race([waiting.allServed(), isLate]);
  await balancer.close({ signal: late.signal });
  timer?.cancel();
}
