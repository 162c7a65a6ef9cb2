import type { ClientRequest } from 'node:http';
import type { Clock } from '../../index.js';

/** What is known of a pod: whether the connections its answers came over can be used again. */
type Keeps = 'unknown' | 'yes' | 'no';

/** A connection has rested when it was idle for so long, in ms: a pod that hangs up behind its answers has mostly done so. */
const REST_MS = 5;
/** Where the pod did hang up it has rested when it was idle for so long, in ms, … */
const LONG_REST_MS = 100;
/** … or for so many times as long as the pod took, or as was not enough. */
const REST_FACTOR = 2;
/** It hung up behind an answer, and not at an idle time-out, if that took no longer, in ms. */
const HANG_UP_MS = 25;
/** Longest rest that is asked for, in ms. */
const MAX_REST_MS = 1_000;
/** How long requests wait at most, in ms, for the first connection that carries a second one. */
const TRIAL_MS = 25;

/** What a request for which there are idle connections does. */
export type Reuse = 'use' | 'dial' | 'wait';

/**
 * Whether the connections of one pod can be used again. If it hangs up behind its answers without saying so, each is as good as
 * gone when an answer has come. So one request tries, on a connection that has rested; the others wait for what becomes of
 * it, for a moment. Where the pod did hang up nobody waits, and each gets a new connection.
 *
 * What is waited for is the network: the clock is the one that runs by itself, also where a test moves all others.
 */
export class ReuseTrial {
  readonly #clock: Clock;
  #keeps: Keeps = 'unknown';
  /** What a connection has to have been idle for, in ms, while the pod is not known to keep them. */
  #restMs = REST_MS;
  /** The first request on a connection that has carried one before. */
  #request: ClientRequest | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A connection carried more than one request: they are used again at once. */
  get isPassed(): boolean {
    return this.#keeps === 'yes';
  }

  /** Until when a request that comes now may wait. */
  get deadlineMs(): number {
    return this.#clock.now() + TRIAL_MS;
  }

  /** @param idleMs How long the connection that rests longest has been idle. @param isFull No other may be opened. */
  decide(idleMs: number, untilMs: number, isFull: boolean): Reuse {
    if (this.#keeps === 'yes') return 'use';
    const isLate = this.#clock.now() >= untilMs;
    if (this.hasRested(idleMs) && this.mayTry(untilMs, isFull)) return 'use';
    return this.#keeps === 'no' || (isLate && !isFull) ? 'dial' : 'wait';
  }

  /** Whether a connection that was idle for so long is unlikely to be hung up on. */
  hasRested(idleMs: number): boolean {
    return idleMs >= this.#restMs;
  }

  /** Whether a request may use a connection that has rested. Where there can be no more it does not wait for long. */
  mayTry(untilMs: number, isFull: boolean): boolean {
    if (this.#keeps !== 'unknown' || this.#request === undefined) return true;
    return isFull && this.#clock.now() >= untilMs;
  }

  /** Looks again after a moment. It keeps the process alive: a request waits. */
  wait(again: () => void): void {
    this.#clock.timer(again, REST_MS).ref();
  }

  /** This request uses a connection that has rested. */
  tries(request: ClientRequest): void {
    if (this.#keeps !== 'unknown') return;
    this.#request = request;
    request.once('close', () => {
      if (this.#request === request) this.#request = undefined;
    });
  }

  /** An answer came over a connection that had carried one before. */
  passed(): void {
    this.#keeps = 'yes';
  }

  /** A request died unanswered on a connection that had carried one before. */
  lost(): void {
    if (this.#keeps === 'yes') this.#keeps = 'unknown';
    else this.#hangsUp(this.#restMs);
  }

  /** The pod ended a connection that had been idle for so long, in ms. */
  ended(idleMs: number): void {
    if (this.#keeps !== 'yes' && idleMs < HANG_UP_MS) this.#hangsUp(idleMs);
  }

  #hangsUp(afterMs: number): void {
    this.#keeps = 'no';
    this.#request = undefined;
    this.#restMs = Math.min(MAX_REST_MS, Math.max(LONG_REST_MS, this.#restMs, afterMs * REST_FACTOR));
  }
}
