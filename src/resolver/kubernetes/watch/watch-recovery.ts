import { type BackoffOptions, backoffDelay } from '../../../runtime/backoff.js';
import type { Clock } from '../../../runtime/clock.js';
import { between, type Rng } from '../../../runtime/rng.js';
import type { ApiFailure, FailureKind } from '../api/api-failure.js';
import { WatchBackoff } from './watch-backoff.js';

/** Internal errors of the API server that last longer than this, in ms, require a new list. */
const INTERNAL_ERRORS_MS = 60_000;
/**
 * The pauses, in ms, before a refusal (403) counts as final. It may only mean that the API server has just started: it is tried again twice
 * within 2 s.
 */
const FORBIDDEN_PAUSES_MS: readonly (readonly [min: number, max: number])[] = [
  [100, 300],
  [1_000, 1_500],
];

/** The shortest pause of the loop while connections to endpoints fail, so that the set is probably outdated. */
const HURRIED: BackoffOptions = { initialMs: 1_000, factor: 2, maxMs: 4_000, jitterRatio: 0 };

/** The next step of the list-and-watch loop, after a pause. */
export interface Step {
  readonly next: 'list' | 'watch';
  readonly pauseMs: number;
  /** How long the pause is at least if connections to endpoints fail meanwhile. @defaultValue pauseMs */
  readonly hurriedMs?: number;
}

/** The reaction of the list-and-watch loop to a failure. */
export interface Remedy extends Step {
  /** Whether the failure is reported to the observer. */
  readonly isNews: boolean;
  /** Whether the failure may pass soon: it is only reported to listeners that have no set yet. */
  readonly isPassing?: boolean;
  /** Whether the server cannot use the version we have, so that the next list must read consistently. */
  readonly isOutdated: boolean;
}

/** Decides what follows the failure of a list or a watch, by the failure's kind and by how often it occurred. */
export class WatchRecovery {
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #backoff: WatchBackoff;
  /** The backoff for status 410 alone: a 410 shows that the server works, so the time that the server was away does not count. */
  readonly #expiredBackoff: WatchBackoff;
  /** How many requests failed since the last success. */
  #failuresInRow = 0;
  #forbiddenInRow = 0;
  /** Whether we may list but not watch: in that case we list from time to time, and have reported that. */
  #watchForbidden = false;
  #internalErrorsSinceMs: number | undefined;
  /** How many responses with status 410 came in a row without progress in between: from the second on, the next list waits. */
  #expiredInRow = 0;

  constructor(clock: Clock, rng: Rng) {
    this.#clock = clock;
    this.#rng = rng;
    this.#backoff = new WatchBackoff(clock, rng);
    this.#expiredBackoff = new WatchBackoff(clock, rng);
  }

  /** A list is complete: failures before it no longer count. */
  listed(): void {
    this.#failuresInRow = 0;
    this.#forbiddenInRow = 0;
    this.#internalErrorsSinceMs = undefined;
  }

  /** A watch was accepted by the API server. */
  opened(): void {
    this.#forbiddenInRow = 0;
    this.#watchForbidden = false;
  }

  /** An event of a watch was applied. */
  progressed(): void {
    this.#internalErrorsSinceMs = undefined;
    this.lasted();
  }

  /** A watch lasted as long as usual. */
  lasted(): void {
    this.#failuresInRow = 0;
    this.#expiredInRow = 0;
    this.#expiredBackoff.reset();
  }

  /** The pause after an error of our own, in ms. */
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
        // The version that the watch requested may be wrong, so the next request is a list.
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
    // Without permission to watch, a list now and then is better than a set that never changes.
    const isNews = verb === 'list' || !wasForbidden;
    return { next: 'list', pauseMs: this.#backoff.longest(), isNews, isOutdated: false };
  }

  #pause(failure: ApiFailure): number {
    return this.#backoff.next(failure.retryAfterMs);
  }

  /**
   * The pause in ms if connections to endpoints fail meanwhile. Drawn once per failure: the smallest of many draws would be no jitter, and
   * clients learn of a dead node together.
   */
  #hurriedMs({ retryAfterMs = 0 }: ApiFailure): number {
    const jitter = 1 + this.#rng.next();
    return Math.max(backoffDelay(HURRIED, this.#failuresInRow, this.#rng) * jitter, retryAfterMs);
  }
}

/** Kinds of failures that are not tried again sooner for a waiting caller: the server asks for a pause, or only a person can mend them. */
const patient: ReadonlySet<FailureKind> = new Set(['throttled', 'forbidden', 'missing', 'credentials']);
