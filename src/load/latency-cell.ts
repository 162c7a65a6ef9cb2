// The offsets in a cell of `relativeLatency`, which holds what is known about one endpoint. The numbers that a pick reads come first, so
// that they share a cache line.

/**
 * Index into an endpoint's numbers: the cost of a call, in units. While servers report no load, a pick reads no other number of the cell. 0
 * = unknown, which counts as `UNITS`.
 */
export const COST = 0;
/** Index into an endpoint's numbers: the number of other clients' calls in flight as last reported, plus 1; 0 = never reported. */
export const OTHERS = 1;
/** Index into an endpoint's numbers: the time when `OTHERS` was last reported, in ms on the balancer's clock. */
export const REPORTED_AT = 2;
/** Index into an endpoint's numbers: the number of calls measured on the endpoint. */
export const SAMPLES = 3;
/** Index into an endpoint's numbers: the moving average of the endpoint's latency, in ms. */
export const LATENCY = 4;
/** Index into an endpoint's numbers: the time when `LATENCY` was last updated, in ms on the balancer's clock. */
export const UPDATED = 5;
/** Index into an endpoint's numbers: the share of the endpoint's recent calls that failed, 0 to 1. */
export const FAILING = 6;
/** Index into an endpoint's numbers: the time when `FAILING` was last updated, in ms on the balancer's clock. */
export const FAILING_AT = 7;
/** Index into an endpoint's numbers: the latency of the endpoint's first call, in ms. */
export const FIRST = 8;
/**
 * Index into an endpoint's numbers: the cost of a call there as the picker `preferenceOrder` reads it. It rises less for a slow endpoint
 * than the cost other pickers read, because that picker also moves slow endpoints back in its order.
 */
export const ORDER_COST = 9;
/** Index into an endpoint's numbers: the endpoint's place in the order of preference, from 1; 0 = the endpoint never had one. */
export const PLACE = 10;
/** Index into an endpoint's numbers: the mean of the logarithm of the endpoint's latency over its last calls. */
export const TYPICAL = 11;
/** Index into an endpoint's numbers: how many calls the mean logarithm of the latency covers. */
export const KNOWN = 12;
/** Index into an endpoint's numbers: the average of other clients' reported calls in flight; 0 before the first report. */
export const OTHERS_AVERAGE = 13;
/** Index into an endpoint's numbers: the number of calls that the endpoint is still to get for being new to the order of preference. */
export const TRIALS = 14;
export const FIELDS = 15;

/** Costs are integers, in hundredths of a call, because V8 would put fractions on the heap at every pick. */
export const UNITS = 100;
export const MOST_UNITS: number = 2 ** 31 - 1;
