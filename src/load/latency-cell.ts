// What is known about one endpoint, for `relativeLatency`: each constant is the index of one of its numbers. The numbers that a pick reads come
// first, so that they share a cache line.

/** The cost of a call, in `UNITS`; 0 = unknown, which counts as `UNITS`. */
export const COST = 0;
/** The number of other clients' calls in flight as last reported, plus 1; 0 = never reported. */
export const OTHERS = 1;
/** The time when `OTHERS` was last reported, in ms on the balancer's clock. */
export const REPORTED_AT = 2;
/** The average of other clients' reported calls in flight; 0 before the first report. */
export const OTHERS_AVERAGE = 3;
/**
 * The share of its calls that the endpoint does not get because it is slow, 0 to below 1; `ONLY_FIRST` = it is so
 * fast that it gets calls only while it is at the front of the ring.
 */
export const WITHHELD = 4;
export const ONLY_FIRST = -1;
/** As `COST`, but it rises with failures only. `WITHHELD` does the rest for `rotatingAperture`. */
export const PRICE = 5;
/** Its index in the ring of `rotatingAperture`. */
export const INDEX = 6;
/** The mean of the logarithm of the latency over its last calls, `KNOWN` of them. */
export const TYPICAL = 7;
export const KNOWN = 8;
/** The time when `TYPICAL` was last updated, in ms on the balancer's clock. */
export const UPDATED = 9;
/** The share of the endpoint's recent calls that failed, 0 to 1. */
export const FAILING = 10;
/** The time when `FAILING` was last updated, in ms on the balancer's clock. */
export const FAILING_AT = 11;
/** How many of its first calls have ended, by which it is not judged, and when the first of them did. */
export const COLD = 12;
export const COLD_AT = 13;
export const FIELDS = 14;

/** Costs are integers, in hundredths of a call, because V8 would put fractions on the heap at every pick. */
export const UNITS = 100;
export const MAX_UNITS: number = 2 ** 31 - 1;
