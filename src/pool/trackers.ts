import type { Outcome } from '../endpoint/outcome.js';
import type { Warnings } from '../observe/warnings.js';
import type { Tracker } from '../stage/stage.js';

/** An endpoint counts as silent if no call on it ended during this share of the time that a call took to time out. */
const SILENT_RATIO = 0.75;
/** An endpoint counts as silent if no call on it ended for this long, in ms: shorter pauses are ordinary. */
const SILENT_MS = 250;

/** All trackers of one subchannel. An error that one tracker throws is reported, and stops neither the others nor the call. */
export class Trackers {
  readonly #trackers: readonly Tracker[];
  /** The trackers that have a `completed`. */
  readonly #listening: readonly Tracker[];
  readonly #warnings: Warnings;

  constructor(trackers: readonly Tracker[], warnings: Warnings) {
    this.#trackers = trackers;
    this.#listening = trackers.filter((tracker) => tracker.completed !== undefined);
    this.#warnings = warnings;
  }

  connected(): void {
    this.#tell((tracker) => tracker.connected?.());
  }

  disconnected(error: Error | undefined): void {
    this.#tell((tracker) => tracker.disconnected?.(error));
  }

  /** Whether a success would now change nothing for any of the trackers. */
  get ignoreSuccess(): boolean {
    try {
      for (const tracker of this.#listening) if (tracker.ignoresSuccess !== true) return false;
      return true;
    } catch (error) {
      this.#threw(error);
      return false;
    }
  }

  /**
   * Passes the end of a call to the trackers. On the path of every call, except for successes that all trackers ignore.
   * @param silentMs How long ago a call last ended other than by a timeout.
   * @param begunSince Calls started on the subchannel since that call ended.
   * @param skipped Successes since the last call of this method.
   */
  completed(outcome: Outcome, latencyMs: number, silentMs: number, begunSince: number, skipped: number): void {
    const trackers = this.#listening;
    const isSilent = outcome.cause === 'timeout' && silentMs >= Math.max(SILENT_MS, SILENT_RATIO * latencyMs);
    const unanswered = isSilent ? begunSince : 1;
    for (let index = 0; index < trackers.length; index++) {
      try {
        (trackers[index] as Tracker).completed?.(outcome, latencyMs, unanswered, skipped);
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
