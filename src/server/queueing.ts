import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Offer } from '../propagation/may-refuse.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { InFlightSource } from './load-reporter.js';

/** With fewer requests than this in flight on a pod, none of them waits for another. */
const FEWEST = 2;
/** A pod refuses requests only while it has this many times the requests in flight that its caller's other pods have. */
const RATIO = 1.5;
/** The event loop counts as busy above this share of time, averaged over the last `MOMENTS_MS`. */
const BUSY = 0.7;
/**
 * Over how much time the use of the event loop is averaged, in ms. It is short, because a pod that was idle a moment ago can begin a
 * request at once.
 */
const MOMENTS_MS = 10;
/** How often the use of the event loop is measured, in ms. */
const LOOK_MS = 5;
/** The event loop is watched until this many ms after the last request that could go to another pod. */
const WATCHED_MS = 10_000;

/**
 * Finds out whether requests queue on this pod and not on others: its event loop is busy, so each further request makes the others slower,
 * and it has more requests in flight than its caller's other pods. Handlers that wait for a database leave the event loop idle, however
 * many there are; and where all pods are equally full, going to another pod is no use.
 */
export class Queueing {
  /** How many requests were refused so far because the pod was busy. */
  refused = 0;
  readonly #inFlight: InFlightSource;
  readonly #clock: Clock;
  readonly #eventLoop: () => EventLoopUtilization;
  #last: EventLoopUtilization;
  /** The share of time in which the event loop was busy lately, 0 to 1. */
  #busy = 0;
  #lastRequestMs = 0;
  /** Runs until the next measurement of the event loop's use; undefined while the event loop is not watched. */
  #timer: Timer | undefined;

  /** @param eventLoop Returns how much the event loop was used since the process began. */
  constructor(
    inFlight: InFlightSource,
    clock: Clock,
    eventLoop: () => EventLoopUtilization = () => performance.eventLoopUtilization(),
  ) {
    this.#inFlight = inFlight;
    this.#clock = clock;
    this.#eventLoop = eventLoop;
    this.#last = eventLoop();
  }

  /** Whether a request that arrives now should be refused, so that it goes to another pod. The request does not count as in flight yet. */
  refuses({ left, typical }: Offer): boolean {
    this.#lastRequestMs = this.#clock.now();
    if (this.#timer === undefined) this.#start();
    else this.#look();
    const { inFlight = 0 } = this.#inFlight;
    const refuses = left > 0 && inFlight >= FEWEST && inFlight >= RATIO * typical && this.#busy > BUSY;
    if (refuses) this.refused++;
    return refuses;
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Begins to watch the event loop. Nothing is known yet about how busy it was lately. */
  #start(): void {
    this.#last = this.#eventLoop();
    this.#busy = 0;
    this.#timer = this.#clock.timer(() => this.#watch(), LOOK_MS);
  }

  #watch(): void {
    this.#look();
    const isInUse = this.#clock.now() - this.#lastRequestMs < WATCHED_MS;
    this.#timer = isInUse ? this.#clock.timer(() => this.#watch(), LOOK_MS) : undefined;
  }

  #look(): void {
    const now = this.#eventLoop();
    const activeMs = now.active - this.#last.active;
    const passedMs = activeMs + now.idle - this.#last.idle;
    this.#last = now;
    if (passedMs <= 0) return;
    const kept = Math.exp(-passedMs / MOMENTS_MS);
    this.#busy = this.#busy * kept + (activeMs / passedMs) * (1 - kept);
  }
}
