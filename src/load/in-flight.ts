import type { Load, LoadFactory } from './load.js';

/** Calls in flight, as this process counts them. The default: needs no tuning and reacts at once. */
export const inFlight = (): LoadFactory => () => new InFlightLoad();

class InFlightLoad implements Load {
  readonly decays = false;
  #inFlight = 0;

  start(): void {
    this.#inFlight++;
  }

  end(): void {
    this.#inFlight--;
  }

  // Counts the call to come, so that idle endpoints do not tie at 0 and weights still matter.
  value(): number {
    return this.#inFlight + 1;
  }
}
