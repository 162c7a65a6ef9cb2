import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Offer } from '../propagation/may-refuse.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { InFlightSource } from './load-reporter.js';

/** If fewer requests than this are in flight on a pod, none of them waits for another. */
const FEWEST = 2;
/** A pod refuses requests only with this many times the requests in flight that its caller's other pods have. */
const RATIO = 1.5;
/** The share of time above which the event loop counts as busy, over the last `MOMENTS_MS`. */
const BUSY = 0.7;
/** How long the moments are over which the use of the event loop is measured, in ms: a pod that was idle a moment ago can begin at once. */
const MOMENTS_MS = 10;
/** Milliseconds between two measurements of the event loop's use. */
const LOOK_MS = 5;
/** How long the event loop is watched after the last request that may go elsewhere, in ms. */
const WATCHED_MS = 10_000;

/**
 * Whether requests queue here and not elsewhere: the event loop is busy, so that each further request makes the others slower, and more
 * requests are in flight than on the caller's other pods. Handlers that wait for a database leave the event loop idle, however many
 * there are; and where all pods are equally full, it is no use to go elsewhere.
 */
export class Queueing {
  /** How many requests were refused so far because the pod was busy. */
  refused = 0;
  readonly #inFlight: InFlightSource;
  readonly #clock: Clock;
  readonly #eventLoop: () => EventLoopUtilization;
  #last: EventLoopUtilization;
  /** The share of time that the event loop was busy lately, 0 to 1. */
  #busy = 0;
  #lastRequestMs = 0;
  /** The timer between two measurements of the event loop's use; it runs while the event loop is watched. */
  #timer: Timer | undefined;

  /** @param eventLoop Returns the use of the event loop since the process began. */
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

  /** Whether a request that arrives now should go to another pod. The request is not counted as in flight yet. */
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

  /** Begins to watch the event loop: nothing is known about its last moments yet. */
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
