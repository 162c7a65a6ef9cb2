import type { Balancer, Clock } from '../../index.js';

/** Counts the requests of one dispatcher or agent that wait for a pod. */
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

  /** Counts a request that stopped waiting for a pod, for whatever reason. Returns true if it was the last one that waited. */
  remove(): boolean {
    if (--this.#count > 0) return false;
    this.#allServed?.();
    return true;
  }

  /** Resolves when no request waits for a pod any longer. Called once. */
  async allServed(): Promise<void> {
    if (this.none) return;
    await new Promise<void>((resolve) => {
      this.#allServed = resolve;
    });
  }
}

/** What is needed to close a dispatcher or agent once the waiting requests have been served. */
export interface ClosingParts {
  readonly balancer: Balancer<unknown>;
  readonly waiting: WaitingRequests;
  readonly clock: Clock;
  /** How long closing a dispatcher or agent may take, in ms. */
  readonly drainTimeoutMs: number;
}

/**
 * Closes the balancer of a dispatcher or agent that accepts no new requests. Waiting requests get a pod first, as they would from an Agent
 * of the HTTP library. When the drain timeout is over, the remaining ones are refused and running ones are cut.
 */
export async function closeWhenServed({ balancer, waiting, clock, drainTimeoutMs }: ClosingParts): Promise<void> {
  const late = new AbortController();
  const timer = Number.isFinite(drainTimeoutMs) ? clock.timer(() => late.abort(), drainTimeoutMs) : undefined;
  timer?.ref();
  if (!waiting.none) {
    const isLate = new Promise<void>((resolve) => {
      late.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await Promise.race([waiting.allServed(), isLate]);
  }
  await balancer.close({ signal: late.signal });
  timer?.cancel();
}
