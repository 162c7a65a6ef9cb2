import { COST, MAX_UNITS, OTHERS, OTHERS_AVERAGE, REPORTED_AT, UNITS } from './latency-cell.js';

/** A server's load report loses two thirds of its weight in this time, in ms; the median of all reports takes its place. */
const REPORT_FADES_MS = 100;
/** A server's load report older than this is ignored, in ms. */
const REPORT_LASTS_MS = 6 * REPORT_FADES_MS;
/** The weight of a load report at each age in ms, as a table: computing it with `Math.exp` would be half the cost of a pick. */
const reportWeights: Float64Array = Float64Array.from({ length: REPORT_LASTS_MS + 1 }, (_, ageMs) =>
  Math.exp(-ageMs / REPORT_FADES_MS),
);

/**
 * If an endpoint reports on average less than this share of the median, a report counts only by how far it is from that endpoint's own
 * average. Otherwise an endpoint that always claims to be idle would get the calls of all clients.
 */
const DOUBTED = 0.5;
/**
 * Each place from the front of the ring on makes an endpoint more expensive than the place before, by this share of the usual number of calls.
 */
const SLOPE_OF_USUAL = 0.1;
/**
 * In the cost of a place, the usual number of calls counts as at most this. If it were far higher, places would matter more than what
 * servers report.
 */
const MAX_USUAL = 4;
// Offsets in the array of numbers in which `isCheaper` keeps its state.
const LEAST = 0;
const NOW = 1;
const SLOPE = 2;

/** Computes a cost from calls in flight. */
export interface CostOfCalls {
  /** Returns the cost of one more call on an endpoint, as `LoadRule.value` does. */
  cost(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number;
}

/**
 * Computes the cost of one more call on an endpoint: the number of calls it has, times the price in its cell. The client's own calls count,
 * and while servers report their calls, those of other clients too.
 */
export class CallCosts implements CostOfCalls {
  /** Whether servers report their load. */
  hasReports = false;
  /** The median, over all endpoints, of other clients' calls in flight in the latest reports. */
  usual = 0;
  readonly #comparing = new Float64Array(3);

  /** Returns the cost of one more call on an endpoint, as `Load.value` does. */
  cost(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    const cost = this.#calls(numbers, at, inFlight, nowMs) * ((numbers[at + COST] as number) || UNITS) + 0.5;
    return cost < MAX_UNITS ? cost | 0 : MAX_UNITS;
  }

  /**
   * Starts a comparison of endpoints from the front of the ring on. The lowest cost so far is kept in a typed array, because a function that
   * returned numbers would put them on the heap.
   */
  compare(nowMs: number): void {
    const comparing = this.#comparing;
    comparing[LEAST] = Number.POSITIVE_INFINITY;
    comparing[NOW] = nowMs;
    comparing[SLOPE] = SLOPE_OF_USUAL * Math.min(this.usual, MAX_USUAL);
  }

  /**
   * Whether the endpoint at `place` from the front of the ring is cheaper than all endpoints compared before it. Counts calls as `#calls` does, but is
   * written out: calling `#calls` here made a pick 30 % slower.
   *
   * @param price Which number of the cell a call costs: `PRICE` or `COST`.
   */
  isCheaper(numbers: Float64Array, at: number, inFlight: number, place: number, price: number): boolean {
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
    const cost = calls * ((numbers[at + price] as number) || UNITS);
    if (cost >= (comparing[LEAST] as number)) return false;
    comparing[LEAST] = cost;
    return true;
  }

  /** Whether the cheapest endpoint compared so far costs clearly more than an endpoint with the usual number of calls. */
  get isDear(): boolean {
    return (this.#comparing[LEAST] as number) > UNITS * (1.5 + this.usual);
  }

  /** How many calls the endpoint has, including the next one, and including other clients' calls as far as they are known. */
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
