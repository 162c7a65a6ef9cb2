import type { CallCosts } from './call-costs.js';
import { KNOWN, SAMPLES, TYPICAL, UPDATED } from './latency-cell.js';
import { lowerMedian } from './median.js';

/** A call moves its endpoint's mean latency by 1 / (number of calls), but at least by 1 / `MOST_KNOWN` of the difference. */
const MOST_KNOWN = 30;
/**
 * If one of an endpoint's first calls, up to this many, is twice as fast as the mean, the endpoint was cold before, and its mean starts
 * anew.
 */
const FIRST_SAMPLES = 8;
/** How far the logarithms of two latencies are apart if one latency is about twice the other. */
export const FAR = 0.7;
/**
 * A call's latency counts as at most three times its endpoint's mean. Where one call in twenty takes long, some endpoint would otherwise
 * always look slow.
 */
const MOST_AT_ONCE: number = Math.log(3);
/** After this many calls, an endpoint's latency may be compared with that of others. */
export const ENOUGH_KNOWN = 4;
/** An endpoint's latency is forgotten when it had no call for this long, in ms. */
export const FORGOTTEN_MS = 30_000;
/** Latencies far below this count as equal, in ms; far below an eighth of the median, if that is less than `MOST_FLOOR_MS`. */
const MOST_FLOOR_MS = 5;
const FLOOR_OF_MEDIAN = 1 / 8;
const LEAST_FLOOR_MS = 0.001;
/** The number of calls in flight is a moving average over this time, in ms. */
const AVERAGE_MS = 3_000;
/** The usual latency is the mean of about this many calls. */
const USUAL_CALLS = 100;
/** An endpoint nearly three times as slow as the median stands out; the threshold as a logarithm. */
const STANDS_OUT = 1;
/** An endpoint four times as fast as the median probably answers without doing its work; the threshold as a logarithm. */
export const SUSPICIOUS = 1.4;
/** If the logarithm of a latency is farther from the median than this, there is no median yet. */
const MOST_ABOVE = 100;
/** How often the median of the endpoints' latencies is computed, in ms. */
const SURVEY_MS = 500;

// Offsets in the array of numbers about a set of endpoints.
/** Offsets of the number of calls in flight now, of its moving average, and of the time of that average. */
const RUNNING = 0;
export const AVERAGE = 1;
const AVERAGED_AT = 2;
/** Index into the numbers of a set: the mean logarithm of the latency over all endpoints; then follows how many calls it covers. */
export const USUAL = 3;
const USUAL_OF = 4;
/**
 * Index into the numbers of a set: the median of `TYPICAL` over all endpoints, which is minus infinity while too few endpoints are known.
 */
export const MEDIAN = 5;
const SURVEYED_AT = 6;
/** Index into the numbers of a set: the number of calls on it that have ended. */
export const ENDED = 7;
/** Index into the numbers of a set: when the next endpoint is raised in the order of preference; then follows how many were raised. */
export const RAISE_AT = 8;
export const RAISES = 9;
/** Index into the numbers of a set: when the first two endpoints of the order change places if there are never two calls in flight. */
export const TURN_AT = 10;
/** Index into the numbers of a set: `FLOOR_OF_MEDIAN` of the median latency, in ms; 0 = unknown. */
const FLOOR = 11;
const STATE = 12;

/**
 * What an order of preference knows about a set of endpoints. Latencies are compared by the mean of their logarithms, so that one long call
 * among short ones changes little and a difference means a ratio.
 */
export class Preferences {
  /**
   * The numbers about the set. They are in an array, because V8 would put numbers that every call changes on the heap if they were fields
   * of an object.
   */
  readonly state: Float64Array = new Float64Array(STATE);
  /** The mean latencies of all endpoints while their median is computed; the array is reused. */
  #values = new Float64Array(16);
  #count = 0;

  /** Computes the costs of calls on the endpoints of the set. */
  readonly costs: CallCosts;

  constructor(costs: CallCosts) {
    this.costs = costs;
    this.state[MEDIAN] = Number.NEGATIVE_INFINITY;
    this.state[SURVEYED_AT] = Number.NEGATIVE_INFINITY;
  }

  /** How many endpoints that were not in use were raised in the order so far, so that new and recovered endpoints are found. */
  get raises(): number {
    return this.state[RAISES] as number;
  }

  /** A call started on an endpoint of the set. */
  started(): void {
    (this.state[RUNNING] as number)++;
  }

  /** A call on an endpoint of the set ended. */
  ended(): void {
    (this.state[RUNNING] as number)--;
    (this.state[ENDED] as number)++;
  }

  /** Updates the moving average of the calls in flight. Called before a call starts. */
  average(nowMs: number): void {
    const { state } = this;
    const passedMs = nowMs - (state[AVERAGED_AT] as number);
    if (passedMs <= 0) return;
    const average = state[AVERAGE] as number;
    state[AVERAGE] = average + (((state[RUNNING] as number) - average) * passedMs) / (AVERAGE_MS + passedMs);
    state[AVERAGED_AT] = nowMs;
  }

  /**
   * Learns from a measured call that began at `startedMs`. Must be called before `UPDATED` changes. The times are passed unchanged, because
   * a computed number as an argument would be put on the heap.
   */
  learn(numbers: Float64Array, at: number, startedMs: number, nowMs: number): void {
    const { state } = this;
    const tookMs = nowMs - startedMs;
    const floorMs = (state[FLOOR] as number) || FLOOR_OF_MEDIAN * tookMs;
    const sample = Math.log(tookMs + Math.min(Math.max(floorMs, LEAST_FLOOR_MS), MOST_FLOOR_MS));
    const isForgotten = nowMs - (numbers[at + UPDATED] as number) > FORGOTTEN_MS;
    const typical = numbers[at + TYPICAL] as number;
    const value = (numbers[at + KNOWN] as number) >= ENOUGH_KNOWN ? Math.min(sample, typical + MOST_AT_ONCE) : sample;
    const wasCold = (numbers[at + SAMPLES] as number) < FIRST_SAMPLES && value < typical - FAR;
    const known = isForgotten || wasCold ? 1 : Math.min((numbers[at + KNOWN] as number) + 1, MOST_KNOWN);
    numbers[at + TYPICAL] = typical + (value - typical) / known;
    numbers[at + KNOWN] = known;
    const calls = Math.min((state[USUAL_OF] as number) + 1, USUAL_CALLS);
    const usual = state[USUAL] as number;
    state[USUAL] = usual + (value - usual) / calls;
    state[USUAL_OF] = calls;
  }

  /**
   * What a call on an endpoint costs, as a multiple of a call on the median endpoint: the ratio of their latencies if the endpoint stands
   * out, otherwise 1. While servers report their load, an endpoint that does not stand out costs the square root of that ratio.
   */
  price(numbers: Float64Array, at: number, nowMs: number): number {
    const above = (numbers[at + TYPICAL] as number) - (this.state[MEDIAN] as number);
    if ((numbers[at + KNOWN] as number) < ENOUGH_KNOWN || !(above < MOST_ABOVE)) return 1;
    if (nowMs - (numbers[at + UPDATED] as number) > FORGOTTEN_MS) return 1;
    if (above >= STANDS_OUT) return Math.exp(above);
    return !this.costs.hasReports || above < -SUSPICIOUS ? 1 : Math.exp(above / 2);
  }

  /**
   * Starts a new median of latencies if it is time for one. If so, returns true; then `survey` is called for each endpoint, and `surveyed`
   * at the end.
   */
  surveying(nowMs: number): boolean {
    if (nowMs - (this.state[SURVEYED_AT] as number) < SURVEY_MS) return false;
    this.state[SURVEYED_AT] = nowMs;
    this.#count = 0;
    return true;
  }

  survey(numbers: Float64Array, at: number): void {
    if ((numbers[at + KNOWN] as number) < ENOUGH_KNOWN) return;
    if (this.#count === this.#values.length) {
      const values = new Float64Array(2 * this.#count);
      values.set(this.#values);
      this.#values = values;
    }
    this.#values[this.#count++] = numbers[at + TYPICAL] as number;
  }

  /** Completes the new median. @param medianMs The median latency in ms. */
  surveyed(medianMs: number): void {
    this.state[FLOOR] = FLOOR_OF_MEDIAN * medianMs;
    // With two endpoints, one of them would always be the median, so there is none.
    this.state[MEDIAN] = this.#count > 2 ? lowerMedian(this.#values, this.#count) : Number.NEGATIVE_INFINITY;
  }
}
