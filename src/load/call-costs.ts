import { COST, MOST_UNITS, ORDER_COST, OTHERS, OTHERS_AVERAGE, REPORTED_AT, UNITS } from './latency-cell.js';

/** In this time a server's load report fades to a third, and the median of all reports takes its place, in ms. */
const REPORT_FADES_MS = 100;
/** A server's load report older than this is ignored, in ms. */
const REPORT_LASTS_MS = 6 * REPORT_FADES_MS;
/** Weights of servers' load reports by age, one entry per ms: computing them with `Math.exp` would be half the cost of a pick. */
const reportWeights: Float64Array = Float64Array.from({ length: REPORT_LASTS_MS + 1 }, (_, ageMs) =>
  Math.exp(-ageMs / REPORT_FADES_MS),
);

/**
 * An endpoint that on average reports less than this share of the median is taken only at how far it is from its own average. Otherwise one
 * that always claims to be idle would get the calls of all clients.
 */
const DOUBTED = 0.5;
/** Each place in the order of preference costs this share of the usual number of calls more than the place before. */
const SLOPE_OF_USUAL = 0.1;
/**
 * The usual number of calls counts up to here in the cost of a place: if it were far above, places would matter more than what servers
 * report.
 */
const MOST_USUAL = 4;
// Offsets in the array of numbers that `isCheaper` keeps.
const LEAST = 0;
const NOW = 1;
const SLOPE = 2;

/** Computes a cost from calls in flight. */
export interface CostOfCalls {
  /** The cost of one more call on an endpoint, as `LoadRule.value`. */
  cost(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number;
}

/**
 * The cost of one more call on an endpoint: the calls it has, times the price in its cell. The calls that count are this client's, and
 * while servers report them also those of other clients.
 */
export class CallCosts implements CostOfCalls {
  /** Whether servers report their load. */
  hasReports = false;
  /** Median over endpoints of other clients' calls in flight, from their latest reports. */
  usual = 0;
  readonly #comparing = new Float64Array(3);

  /** The cost of one more call on an endpoint, as `Load.value`. */
  cost(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    const cost = this.#calls(numbers, at, inFlight, nowMs) * ((numbers[at + COST] as number) || UNITS) + 0.5;
    return cost < MOST_UNITS ? cost | 0 : MOST_UNITS;
  }

  /**
   * Begins to compare the endpoints of an order of preference. The cheapest so far is kept in fields, since a function that returned
   * numbers would put them on the heap.
   */
  compare(nowMs: number): void {
    const comparing = this.#comparing;
    comparing[LEAST] = Number.POSITIVE_INFINITY;
    comparing[NOW] = nowMs;
    comparing[SLOPE] = SLOPE_OF_USUAL * Math.min(this.usual, MOST_USUAL);
  }

  /** Whether the endpoint at `place` of the order is cheaper than all compared before. */
  isCheaper(numbers: Float64Array, at: number, inFlight: number, place: number): boolean {
    const comparing = this.#comparing;
    const usual = this.usual;
    const others = numbers[at + OTHERS] as number;
    const ageMs = (comparing[NOW] as number) - (numbers[at + REPORTED_AT] as number);
    let calls = inFlight + 1 + usual + (comparing[SLOPE] as number) * place;
    if (others !== 0 && ageMs < REPORT_LASTS_MS) {
      const usually = numbers[at + OTHERS_AVERAGE] as number;
      const expected = usually < DOUBTED * usual ? usually : usual;
      calls += (others - 1 - expected) * (reportWeights[ageMs > 0 ? ageMs | 0 : 0] as number);
    }
    const cost = calls * ((numbers[at + ORDER_COST] as number) || UNITS);
    if (cost >= (comparing[LEAST] as number)) return false;
    comparing[LEAST] = cost;
    return true;
  }

  /** Whether the cheapest endpoint compared so far costs more than one that is hardly busier than usual. */
  get isDear(): boolean {
    return (this.#comparing[LEAST] as number) > UNITS * (1.5 + this.usual);
  }

  /** How many calls the endpoint has, the next one included; those of other clients count as far as they are known. */
  #calls(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    if (!this.hasReports) return inFlight + 1;
    const usual = this.usual;
    const others = numbers[at + OTHERS] as number;
    const ageMs = Math.max(0, nowMs - (numbers[at + REPORTED_AT] as number));
    if (others === 0 || !(ageMs < REPORT_LASTS_MS)) return inFlight + 1 + usual;
    const usually = numbers[at + OTHERS_AVERAGE] as number;
    const expected = usually < DOUBTED * usual ? usually : usual;
    return inFlight + 1 + usual + (others - 1 - expected) * (reportWeights[ageMs | 0] as number);
  }
}
