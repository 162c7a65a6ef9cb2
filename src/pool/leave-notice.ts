import { setMaxListeners } from 'node:events';
import type { Endpoint } from '../endpoint/endpoint.js';

/** The reason of `lease.leaving`: calls on this endpoint had better move. */
export interface Leaving {
  readonly endpoint: Endpoint;
  /**
   * Until when calls may stay, on the balancer's clock (`performance.now()` unless another was given); then they are cut.
   * Infinity = as long as they take.
   */
  readonly untilMs: number;
}

/** Tells the calls of one endpoint that it leaves. The signal is made when first asked for: most calls never do. */
export class LeaveNotice {
  #controller: AbortController | undefined;
  #leaving: Leaving | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      // One signal for all calls of the endpoint.
      setMaxListeners(0, this.#controller.signal);
      if (this.#leaving !== undefined) this.#controller.abort(this.#leaving);
    }
    return this.#controller.signal;
  }

  give(leaving: Leaving): void {
    this.#leaving = leaving;
    this.#controller?.abort(leaving);
  }

  /** The endpoint stays after all: calls that begin from now on have a signal of their own. */
  withdraw(): void {
    if (this.#leaving === undefined) return;
    this.#leaving = undefined;
    this.#controller = undefined;
  }
}
