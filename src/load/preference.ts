import type { CallCosts } from './call-costs.js';
import { KNOWN, SAMPLES, TYPICAL, UPDATED } from './latency-cell.js';
import { lowerMedian } from './median.js';

/** A call moves the mean latency of its endpoint by 1 / (number of calls), and by at least 1 in this many. */
const MOST_KNOWN = 30;
/** If one of this many first calls is twice as fast as the mean, the endpoint was cold before: its mean begins anew. */
const FIRST_SAMPLES = 8;
/** A difference of logarithms that means twice as slow, or twice as fast. */
export const FAR = 0.7;
/**
 * A call's latency counts as at most three times its endpoint's mean: where one in twenty takes long, some endpoint always had a few of
 * those.
 */
const MOST_AT_ONCE: number = Math.log(3);
/** With this many calls an endpoint's latency is compared with that of others. */
export const ENOUGH_KNOWN = 4;
/** An endpoint's latency is forgotten after this long without a call on it, in ms. */
export const FORGOTTEN_MS = 30_000;
/** Latencies far below this count as equal, in ms; far below an eighth of the median, if that is less. */
const MOST_FLOOR_MS = 5;
const FLOOR_OF_MEDIAN = 1 / 8;
const LEAST_FLOOR_MS = 0.001;
/** The number of calls in flight is averaged over this time, in ms. */
const AVERAGE_MS = 3_000;
/** The usual latency is the mean of about this many calls. */
const USUAL_CALLS = 100;
/** An endpoint nearly three times as slow as the median stands out; as a logarithm. */
const STANDS_OUT = 1;
/** An endpoint four times as fast as the median probably answers without doing the work; as a logarithm. */
export const SUSPICIOUS = 1.4;
/** While there is no median latency, every endpoint counts as this far above it; as a logarithm. */
const MOST_ABOVE = 100;
/** How often the median latency is computed anew, in ms. */
const SURVEY_MS = 500;

// Offsets in the array of numbers about a set.
/** Calls in flight now, and their average. */
const RUNNING = 0;
export const AVERAGE = 1;
const AVERAGED_AT = 2;
/** Mean of the logarithm of the latency, over all endpoints. */
export const USUAL = 3;
const USUAL_OF = 4;
/** Median of `TYPICAL`; minus infinity while too few endpoints are known. */
export const MEDIAN = 5;
const SURVEYED_AT = 6;
/** How many calls on the set have ended. */
export const ENDED = 7;
/** When an endpoint is raised next in the order of preference, and how many were raised so far. */
export const RAISE_AT = 8;
export const RAISES = 9;
/** When the first two endpoints of the order change places, if there are never two calls in flight. */
export const TURN_AT = 10;
/** `FLOOR_OF_MEDIAN` of the median latency, in ms; 0 = unknown. */
const FLOOR = 11;
const STATE = 12;

/**
 * What an order of preference compares the endpoints of one set by. Latencies are compared by the mean of their logarithms: a long call
 * among short ones changes it little, and a difference is a ratio.
 */
export class Preferences {
  /** An array, because numbers that every call changes would be put on the heap as fields of an object. */
  readonly state: Float64Array = new Float64Array(STATE);
  /** The mean latencies collected between `surveying` and `surveyed`; reused. */
  #values = new Float64Array(16);
  #count = 0;

  /** Computes the costs of calls on the endpoints of the set. */
  readonly costs: CallCosts;

  constructor(costs: CallCosts) {
    this.costs = costs;
    this.state[MEDIAN] = Number.NEGATIVE_INFINITY;
    this.state[SURVEYED_AT] = Number.NEGATIVE_INFINITY;
  }

  /** How many endpoints that were not in use were raised in the order, so that new and recovered ones are found. */
  get raises(): number {
    return this.state[RAISES] as number;
  }

  /** A call started. */
  started(): void {
    (this.state[RUNNING] as number)++;
  }

  /** A call ended. */
  ended(): void {
    (this.state[RUNNING] as number)--;
    (this.state[ENDED] as number)++;
  }

  /** A call is about to start: brings the average of the calls in flight up to date. */
  average(nowMs: number): void {
    const { state } = this;
    const passedMs = nowMs - (state[AVERAGED_AT] as number);
    if (passedMs <= 0) return;
    const average = state[AVERAGE] as number;
    state[AVERAGE] = average + (((state[RUNNING] as number) - average) * passedMs) / (AVERAGE_MS + passedMs);
    state[AVERAGED_AT] = nowMs;
  }

  /**
   * Learns from a call that began at `startedMs` and was measured; called before `UPDATED` changes. The arguments are numbers that are on
   * the heap already.
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
   * What a call on an endpoint costs, as a multiple of one on the median endpoint: the ratio of their latencies if the endpoint stands out,
   * otherwise 1. While servers report, an endpoint that does not stand out costs the square root of that ratio.
   */
  price(numbers: Float64Array, at: number, nowMs: number): number {
    const above = (numbers[at + TYPICAL] as number) - (this.state[MEDIAN] as number);
    if ((numbers[at + KNOWN] as number) < ENOUGH_KNOWN || !(above < MOST_ABOVE)) return 1;
    if (nowMs - (numbers[at + UPDATED] as number) > FORGOTTEN_MS) return 1;
    if (above >= STANDS_OUT) return Math.exp(above);
    return !this.costs.hasReports || above < -SUSPICIOUS ? 1 : Math.exp(above / 2);
  }

  /** Starts a new median of latencies: if true, `survey` follows for each endpoint, then `surveyed`. */
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

  /** Completes the new median. @param medianMs Median of the latencies. */
  surveyed(medianMs: number): void {
    this.state[FLOOR] = FLOOR_OF_MEDIAN * medianMs;
    // With two endpoints, one of them would always be the median.
    this.state[MEDIAN] = this.#count > 2 ? lowerMedian(this.#values, this.#count) : Number.NEGATIVE_INFINITY;
  }
}
