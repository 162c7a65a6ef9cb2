import type { Clock } from '../../index.js';
import type { SocketTaker } from './node-agent.js';

/** Whether a pod's connections can be reused after a response, as far as is known. */
type Keeps = 'unknown' | 'yes' | 'no';

/** A connection has rested after being idle for this long, in ms: a pod that closes connections after responses has mostly done so. */
const REST_MS = 5;
/** If the pod did close one, a connection has rested after this long, in ms, … */
const LONG_REST_MS = 100;
/** … or after this many times the longest time that was not enough. */
const REST_FACTOR = 2;
/** A connection that was idle for at most this long was closed because of the response, not an idle timeout, in ms. */
const HANG_UP_MS = 25;
/** The longest rest required, in ms. */
const MAX_REST_MS = 1_000;
/** How long requests wait for the first connection that carries a second request, in ms. */
const TRIAL_MS = 25;

/** What a request does if there are idle connections. */
export type Reuse = 'use' | 'dial' | 'wait';

/**
 * Whether the connections of one pod can be reused. If the pod closes them unannounced after each response, they are useless as soon as
 * a response has arrived. So one request tries, on a connection that has rested, and the others briefly wait for the result. If the
 * pod did close it, no request waits any longer, and each gets a new connection.
 *
 * This waits for the network, so it uses real time, even if a test controls all other clocks.
 */
export class ReuseTrial {
  readonly #clock: Clock;
  #keeps: Keeps = 'unknown';
  /** How long a connection must have been idle, in ms, while it is not known whether the pod keeps them. */
  #restMs = REST_MS;
  /** The first request on a reused connection. */
  #request: SocketTaker | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A connection carried more than one request: connections are reused immediately. */
  get isPassed(): boolean {
    return this.#keeps === 'yes';
  }

  /** How long a new request may wait, as a time. */
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

  /** Whether the pod is unlikely to close a connection that was idle for this long. */
  hasRested(idleMs: number): boolean {
    return idleMs >= this.#restMs;
  }

  /** Whether a request may use a connection that has rested. If no other can be opened it does not wait for long. */
  mayTry(untilMs: number, isFull: boolean): boolean {
    if (this.#keeps !== 'unknown' || this.#request === undefined) return true;
    return isFull && this.#clock.now() >= untilMs;
  }

  /** Checks again after a moment. Keeps the process alive, because a request is waiting. */
  wait(again: () => void): void {
    this.#clock.timer(again, REST_MS).ref();
  }

  /** This request uses a connection that has rested. */
  tries(request: SocketTaker): void {
    if (this.#keeps !== 'unknown') return;
    this.#request = request;
    request.once('close', () => {
      if (this.#request === request) this.#request = undefined;
    });
  }

  /** A response arrived on a reused connection. */
  passed(): void {
    this.#keeps = 'yes';
  }

  /** A request died without a response on a reused connection. */
  lost(): void {
    if (this.#keeps === 'yes') this.#keeps = 'unknown';
    else this.#hangsUp(this.#restMs);
  }

  /** The pod closed a connection that had been idle for this long, in ms. */
  ended(idleMs: number): void {
    if (this.#keeps !== 'yes' && idleMs < HANG_UP_MS) this.#hangsUp(idleMs);
  }

  #hangsUp(afterMs: number): void {
    this.#keeps = 'no';
    this.#request = undefined;
    this.#restMs = Math.min(MAX_REST_MS, Math.max(LONG_REST_MS, this.#restMs, afterMs * REST_FACTOR));
  }
}
