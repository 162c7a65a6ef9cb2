// The layout of a cell of `relativeLatency`: what is known about one endpoint. The numbers that a pick reads come first, in one cache line.

/** The cost of a call, in units. While servers report no load, a pick reads no other number of the cell. 0 = unknown: counts as `UNITS`. */
export const COST = 0;
/** Other clients' calls in flight as last reported, plus 1; 0 = never reported. */
export const OTHERS = 1;
/** When `OTHERS` was last reported, on the clock in ms. */
export const REPORTED_AT = 2;
/** Number of calls measured on the endpoint. */
export const SAMPLES = 3;
/** Moving average of the latency, in ms. */
export const LATENCY = 4;
/** When `LATENCY` was last updated, on the clock in ms. */
export const UPDATED = 5;
/** Share of recent calls that failed, 0 to 1. */
export const FAILING = 6;
/** When `FAILING` was last updated, on the clock in ms. */
export const FAILING_AT = 7;
/** Latency of the endpoint's first call, in ms. */
export const FIRST = 8;
/**
 * The endpoint's cost, as `COST`, for an order of preference: it need not avoid an endpoint that is only slow, since the order moves that
 * backwards.
 */
export const ORDER_COST = 9;
/** The endpoint's place in the order of preference, from 1; 0 = it never had one. */
export const PLACE = 10;
/** Mean of the logarithm of the endpoint's latency over its last calls. */
export const TYPICAL = 11;
/** How many calls the mean `TYPICAL` covers. */
export const KNOWN = 12;
/** The average of `OTHERS` over the reports, without the added 1; 0 before the first. */
export const OTHERS_AVERAGE = 13;
/** How many more calls the endpoint is to get because it is new to the order of preference. */
export const TRIALS = 14;
export const FIELDS = 15;

/** Costs are integers (hundredths of a call), because fractions would be boxed at every pick. */
export const UNITS = 100;
export const MOST_UNITS: number = 2 ** 31 - 1;
