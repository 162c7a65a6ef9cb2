import { setMaxListeners } from 'node:events';
import type { Endpoint } from '../endpoint/endpoint.js';

/** The reason of `lease.leaving`: calls on this endpoint should move. */
export interface Leaving {
  readonly endpoint: Endpoint;
  /**
   * Until when calls may stay, on the balancer's clock (`performance.now()` by default); then they are cut. Infinity = no
   * limit.
   */
  readonly untilMs: number;
}

/** Tells the calls of one endpoint that it leaves. The signal is created on demand, because most calls never read it. */
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

  /** The endpoint stays after all: calls that start from now on get a new signal. */
  withdraw(): void {
    if (this.#leaving === undefined) return;
    this.#leaving = undefined;
    this.#controller = undefined;
  }
}
