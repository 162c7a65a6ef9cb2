import type { Clock } from '../../runtime/clock.js';
import { between, type Rng } from '../../runtime/rng.js';
import type { ApiFailure } from './api-failure.js';
import { WatchBackoff } from './watch-backoff.js';

/** W8: internal errors for longer than this call for a list. */
const INTERNAL_ERRORS_MS = 60_000;
/** A 403 may only mean that the server has just started: two retries within 2 s before it counts as final. */
const FORBIDDEN_PAUSES_MS: readonly (readonly [min: number, max: number])[] = [
  [100, 300],
  [1_000, 1_500],
];

/** What the loop does next, after a pause. */
export interface Step {
  readonly next: 'list' | 'watch';
  readonly pauseMs: number;
}

/** What follows a failure. */
export interface Remedy extends Step {
  /** Whether it is worth telling. */
  readonly isNews: boolean;
  /** Whether it may be over in a moment: worth telling only to callers who have nothing yet. */
  readonly isPassing?: boolean;
  /** Whether the version we have is of no use to the server, so that the next list must read consistently. */
  readonly isOutdated: boolean;
}

/** Decides what follows the failure of a list or a watch (W7, W8, W12), by its kind and by how often it came. */
export class WatchRecovery {
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #backoff: WatchBackoff;
  #forbiddenInRow = 0;
  /** We may list and not watch: then we list from time to time, and have said so. */
  #watchForbidden = false;
  #internalErrorsSinceMs: number | undefined;
  /** No watch has got anywhere since the last 410: the next one is not answered by a list at once. */
  #expiredInRow = 0;

  constructor(clock: Clock, rng: Rng) {
    this.#clock = clock;
    this.#rng = rng;
    this.#backoff = new WatchBackoff(clock, rng);
  }

  /** A list was complete. */
  listed(): void {
    this.#forbiddenInRow = 0;
    this.#internalErrorsSinceMs = undefined;
  }

  /** A watch was granted. */
  opened(): void {
    this.#forbiddenInRow = 0;
    this.#watchForbidden = false;
  }

  /** An event was applied. */
  progressed(): void {
    this.#internalErrorsSinceMs = undefined;
    this.#expiredInRow = 0;
  }

  /** A watch lived as long as an ordinary one. */
  lasted(): void {
    this.#expiredInRow = 0;
  }

  /** The pause after a mistake of our own, in ms. */
  pause(): number {
    return this.#backoff.next();
  }

  after(verb: 'list' | 'watch', failure: ApiFailure): Remedy {
    if (failure.kind !== 'forbidden') this.#forbiddenInRow = 0;
    switch (failure.kind) {
      case 'forbidden':
        return this.#afterForbidden(verb);
      case 'expired':
      case 'too-large': {
        this.#expiredInRow += 1;
        const isFirst = this.#expiredInRow === 1;
        return { next: 'list', pauseMs: isFirst ? 0 : this.#pause(failure), isNews: !isFirst, isOutdated: true };
      }
      case 'missing':
        return { next: 'list', pauseMs: this.#backoff.longest(), isNews: true, isOutdated: false };
      case 'internal': {
        this.#internalErrorsSinceMs ??= this.#clock.now();
        const lasting = this.#clock.now() - this.#internalErrorsSinceMs > INTERNAL_ERRORS_MS;
        if (lasting) this.#internalErrorsSinceMs = undefined;
        return { next: lasting ? 'list' : verb, pauseMs: this.#pause(failure), isNews: true, isOutdated: false };
      }
      case 'rejected':
        // It may be the version that is wrong.
        return { next: 'list', pauseMs: this.#pause(failure), isNews: true, isOutdated: verb === 'list' };
      case 'credentials': {
        const pauseMs = failure.label === 'permanent' ? this.#backoff.longest() : this.#pause(failure);
        return { next: verb, pauseMs, isNews: true, isOutdated: false };
      }
      case 'unauthorized':
      case 'throttled':
      case 'timeout':
      case 'protocol':
      case 'network':
        return { next: verb, pauseMs: this.#pause(failure), isNews: true, isOutdated: false };
    }
  }

  #afterForbidden(verb: 'list' | 'watch'): Remedy {
    const wasForbidden = this.#watchForbidden;
    const short = FORBIDDEN_PAUSES_MS[this.#forbiddenInRow];
    this.#forbiddenInRow += 1;
    if (short !== undefined && !wasForbidden) {
      const pauseMs = between(this.#rng, short[0], short[1]);
      return { next: verb, pauseMs, isNews: false, isPassing: true, isOutdated: false };
    }
    this.#watchForbidden = verb === 'watch';
    // Without a watch, a list now and then is better than a set that stands still.
    const isNews = verb === 'list' || !wasForbidden;
    return { next: 'list', pauseMs: this.#backoff.longest(), isNews, isOutdated: false };
  }

  #pause(failure: ApiFailure): number {
    return this.#backoff.next(failure.retryAfterMs);
  }
}
