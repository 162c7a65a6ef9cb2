import { type BackoffOptions, backoffDelay } from '../../../runtime/backoff.js';
import type { Clock } from '../../../runtime/clock.js';
import { between, type Rng } from '../../../runtime/rng.js';
import type { ApiFailure, FailureKind } from '../api/api-failure.js';
import { WatchBackoff } from './watch-backoff.js';

/** If internal errors of the API server last longer than this, in ms, the next request is a list. */
const INTERNAL_ERRORS_MS = 60_000;
/**
 * The pauses before a refusal (status 403) counts as final, in ms. An API server that has just started may refuse requests for a moment,
 * so two more attempts are made within 2 s.
 */
const FORBIDDEN_PAUSES_MS: readonly (readonly [min: number, max: number])[] = [
  [100, 300],
  [1_000, 1_500],
];

/** The shortest pauses of the loop while connections to endpoints fail, because the set is probably outdated then. */
const HURRIED: BackoffOptions = { initialMs: 1_000, factor: 2, maxMs: 4_000, jitterRatio: 0 };

/** What the list-and-watch loop does next, and how long it pauses before. */
export interface Step {
  readonly next: 'list' | 'watch';
  readonly pauseMs: number;
  /** The shortest length of the pause if connections to endpoints fail meanwhile, in ms. @defaultValue pauseMs */
  readonly hurriedMs?: number;
}

/** The reaction of the list-and-watch loop to a failure. */
export interface Remedy extends Step {
  /** Whether the failure is reported to the observer. */
  readonly isNews: boolean;
  /** Whether the failure may pass soon. It is only reported to listeners that have no set yet. */
  readonly isPassing?: boolean;
  /**
   * Whether the API server cannot use the version that was applied last, so that the next list must be read from the server's database.
   */
  readonly isOutdated: boolean;
}

/** Decides what the list-and-watch loop does after a failure, depending on the kind of failure and on how often it has occurred. */
export class WatchRecovery {
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #backoff: WatchBackoff;
  /**
   * The pauses after status 410 have a backoff of their own. Status 410 shows that the server works, so failures before it, while the
   * server was away, must not make these pauses long.
   */
  readonly #expiredBackoff: WatchBackoff;
  /** How many requests have failed in a row. */
  #failuresInRow = 0;
  #forbiddenInRow = 0;
  /** Whether lists are allowed but watches are not. In that case the loop only lists from time to time; this has been reported. */
  #watchForbidden = false;
  #internalErrorsSinceMs: number | undefined;
  /**
   * How many times in a row the server answered with status 410 without any progress in between. From the second time on, there is a
   * pause before the next list.
   */
  #expiredInRow = 0;

  constructor(clock: Clock, rng: Rng) {
    this.#clock = clock;
    this.#rng = rng;
    this.#backoff = new WatchBackoff(clock, rng);
    this.#expiredBackoff = new WatchBackoff(clock, rng);
  }

  /** Says that a list is complete, so failures before it no longer count. */
  listed(): void {
    this.#failuresInRow = 0;
    this.#forbiddenInRow = 0;
    this.#internalErrorsSinceMs = undefined;
  }

  /** Says that the API server accepted a watch. */
  opened(): void {
    this.#forbiddenInRow = 0;
    this.#watchForbidden = false;
  }

  /** Says that an event of a watch was applied. */
  progressed(): void {
    this.#internalErrorsSinceMs = undefined;
    this.lasted();
  }

  /** Says that a watch lasted as long as usual. */
  lasted(): void {
    this.#failuresInRow = 0;
    this.#expiredInRow = 0;
    this.#expiredBackoff.reset();
  }

  /** Returns the pause after an unexpected error in evenkeel itself, in ms. */
  pause(): number {
    return this.#backoff.next();
  }

  after(verb: 'list' | 'watch', failure: ApiFailure): Remedy {
    this.#failuresInRow += 1;
    const remedy = this.#remedyAfter(verb, failure);
    return patient.has(failure.kind) ? remedy : { ...remedy, hurriedMs: this.#hurriedMs(failure) };
  }

  #remedyAfter(verb: 'list' | 'watch', failure: ApiFailure): Remedy {
    if (failure.kind !== 'forbidden') this.#forbiddenInRow = 0;
    switch (failure.kind) {
      case 'forbidden':
        return this.#afterForbidden(verb);
      case 'expired':
      case 'too-large': {
        this.#expiredInRow += 1;
        const isFirst = this.#expiredInRow === 1;
        const pauseMs = isFirst ? 0 : this.#expiredBackoff.next(failure.retryAfterMs);
        return { next: 'list', pauseMs, isNews: !isFirst, isOutdated: true };
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
        // The server rejected the request for an unknown reason. The version in it may be wrong, so the next request is a list.
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
    // Without permission to watch, a list from time to time is better than a set that never changes.
    const isNews = verb === 'list' || !wasForbidden;
    return { next: 'list', pauseMs: this.#backoff.longest(), isNews, isOutdated: false };
  }

  #pause(failure: ApiFailure): number {
    return this.#backoff.next(failure.retryAfterMs);
  }

  /**
   * Returns the shortest pause in ms if connections to endpoints fail meanwhile. The random part is drawn once for each failure: all
   * clients notice a dead node together, and repeated draws would bring all of them close to the minimum.
   */
  #hurriedMs({ retryAfterMs = 0 }: ApiFailure): number {
    const jitter = 1 + this.#rng.next();
    return Math.max(backoffDelay(HURRIED, this.#failuresInRow, this.#rng) * jitter, retryAfterMs);
  }
}

/**
 * The kinds of failures after which the pause is not shortened when connections to endpoints fail: either the server asked for the pause,
 * or only a person can solve the problem.
 */
const patient: ReadonlySet<FailureKind> = new Set(['throttled', 'forbidden', 'missing', 'credentials']);
