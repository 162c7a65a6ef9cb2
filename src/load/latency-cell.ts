// The layout of a cell of `relativeLatency`: what is known about one endpoint. The fields that a pick reads come first, in one cache line.

/** The cost of a call, in units. Without reports a pick reads nothing else. 0 = unknown: counts as `UNITS`. */
export const COST = 0;
/** Other clients' calls in flight as last reported, plus 1; 0 = never reported. */
export const OTHERS = 1;
/** When `OTHERS` was last reported. */
export const REPORTED_AT = 2;
/** Number of calls measured. */
export const SAMPLES = 3;
/** Moving average of the latency, in ms. */
export const LATENCY = 4;
/** When the latency was last updated. */
export const UPDATED = 5;
/** Share of recent calls that failed, 0 to 1. */
export const FAILING = 6;
/** When `FAILING` was last updated. */
export const FAILING_AT = 7;
/** Latency of the first call, in ms. */
export const FIRST = 8;
/** The `COST` that an order of preference uses: it need not avoid an endpoint that is only slow, since it moves that backwards. */
export const ORDER_COST = 9;
/** The endpoint's place in the order of preference, from 1; 0 = it never had one. */
export const PLACE = 10;
/** Mean of the logarithm of the latency over the last calls. */
export const TYPICAL = 11;
/** How many calls `TYPICAL` covers. */
export const KNOWN = 12;
/** The average of `OTHERS` over the reports, without the added 1; 0 before the first. */
export const OTHERS_AVERAGE = 13;
/** How many more calls the endpoint is to get because it is new to the order of preference. */
export const TRIALS = 14;
export const FIELDS = 15;

/** Costs are integers (hundredths of a call), because fractions would be boxed at every pick. */
export const UNITS = 100;
export const MOST_UNITS: number = 2 ** 31 - 1;
