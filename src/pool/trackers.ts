import type { Outcome } from '../endpoint/outcome.js';
import type { Warnings } from '../observe/warnings.js';
import type { Tracker } from '../stage/stage.js';

/** All that track one subchannel. What one of them throws is told of, and stops neither the others nor the call. */
export class Trackers {
  readonly #trackers: readonly Tracker[];
  readonly #warnings: Warnings;

  constructor(trackers: readonly Tracker[], warnings: Warnings) {
    this.#trackers = trackers;
    this.#warnings = warnings;
  }

  connected(): void {
    this.#tell((tracker) => tracker.connected?.());
  }

  disconnected(error: Error | undefined): void {
    this.#tell((tracker) => tracker.disconnected?.(error));
  }

  /** On the path of every call. */
  completed(outcome: Outcome, latencyMs: number): void {
    const trackers = this.#trackers;
    for (let index = 0; index < trackers.length; index++) {
      try {
        (trackers[index] as Tracker).completed?.(outcome, latencyMs);
      } catch (error) {
        this.#threw(error);
      }
    }
  }

  probed(): void {
    this.#tell((tracker) => tracker.probed?.());
  }

  closed(): void {
    this.#tell((tracker) => tracker.closed?.());
  }

  #tell(what: (tracker: Tracker) => void): void {
    for (const tracker of this.#trackers) {
      try {
        what(tracker);
      } catch (error) {
        this.#threw(error);
      }
    }
  }

  #threw(error: unknown): void {
    this.#warnings.warn('the tracker of a stage threw', error);
  }
}
