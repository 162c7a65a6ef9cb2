import type { Outcome } from '../endpoint/outcome.js';
import type { Warnings } from '../observe/warnings.js';
import type { Tracker } from '../stage/stage.js';

/** When a call timed out, its endpoint counts as silent if no other call ended on it during this share of that time. */
const SILENT_RATIO = 0.75;
/** An endpoint does not count as silent before no call has ended on it for this long, in ms, because shorter pauses are ordinary. */
const SILENT_MS = 250;

/**
 * All trackers of one subchannel. If one of them throws, the error is reported, and neither the other trackers nor the call are affected.
 */
export class Trackers {
  readonly #trackers: readonly Tracker[];
  /** The trackers that have a method `completed`. */
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

  /** Whether a successful call would change nothing for any of the trackers now. */
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
   * Passes the end of a call to the trackers. Called for every call, except for successes that all trackers ignore.
   *
   * @param silentMs How long ago a call last ended with anything but a timeout, in ms.
   * @param begunSince How many calls have started on the subchannel since then.
   * @param skipped How many successes were not passed on since the last call of this method.
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
