import type { Outcome } from '../endpoint/outcome.js';
import type { Tracker } from '../stage/stage.js';

/** When a call timed out, its endpoint counts as silent if no other call ended on it during this share of that time. */
const SILENT_RATIO = 0.75;
/** An endpoint does not count as silent before no call has ended on it for this long, in ms, because shorter pauses are ordinary. */
const SILENT_MS = 250;

/** All trackers of one subchannel. They do not throw. */
export class Trackers {
  readonly #trackers: readonly Tracker[];
  /** The trackers that have a method `completed`. */
  readonly #listening: readonly Tracker[];

  constructor(trackers: readonly Tracker[]) {
    this.#trackers = trackers;
    this.#listening = trackers.filter((tracker) => tracker.completed !== undefined);
  }

  connected(): void {
    for (const tracker of this.#trackers) tracker.connected?.();
  }

  disconnected(error: Error | undefined): void {
    for (const tracker of this.#trackers) tracker.disconnected?.(error);
  }

  /** Whether a successful call would change nothing for any of the trackers now. */
  get ignoreSuccess(): boolean {
    for (const tracker of this.#listening) if (tracker.ignoresSuccess !== true) return false;
    return true;
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
      (trackers[index] as Tracker).completed?.(outcome, latencyMs, unanswered, skipped);
    }
  }

  probed(): void {
    for (const tracker of this.#trackers) tracker.probed?.();
  }

  closed(): void {
    for (const tracker of this.#trackers) tracker.closed?.();
  }
}
