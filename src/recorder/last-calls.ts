import type { Outcome } from '../endpoint/outcome.js';
import type { ReplayedEnd } from './replayed-event.js';
import type { ReplicaSubchannel } from './replica-subchannel.js';

/** How the last call on an endpoint went. */
export interface LastCall {
  readonly outcome: Outcome;
  /** How long the endpoint took to respond, as measured, in ms. */
  readonly latencyMs: number;
  readonly endedAtMs: number;
}

/**
 * The last measured call of each endpoint while a recording is replayed. A load keeps only an estimate, which changes even without calls:
 * an endpoint that took 400 ms half a minute ago counts as usual again.
 */
export class LastCalls {
  readonly #calls = new Map<number, LastCall>();

  ended({ subchannel, outcome, latencyMs, atMs, isMeasured }: ReplayedEnd): void {
    if (!isMeasured || outcome.kind === 'not-started') return;
    this.#calls.set(subchannel.recordedAs, { outcome, latencyMs, endedAtMs: atMs });
  }

  of({ recordedAs }: ReplicaSubchannel): LastCall | undefined {
    return this.#calls.get(recordedAs);
  }
}
