/**
 * How the cost of one more call on an endpoint follows from the endpoint's load and weight. With `unit` = load / (calls in flight + 1) and
 * `step` = mean weight / weight:
 *
 * - `share`: unit × (calls in flight × step + 1). The weight applies to running calls, not to the next one: idle endpoints cost the same
 *   whatever their weights, so turns or draws by weight decide between them. Under load, calls in flight per weight even out. If a load
 *   knows about other clients' calls (`unit`), they count as running.
 * - `delay`: load × step. The next call counts too: the cost is how long it would wait if weight were speed.
 * - `never-queue`: an idle endpoint costs less than any busy one; busy ones cost the same as with `delay`.
 *
 * Each picker contains these formulas itself, because a function that returned the cost would put a number on the heap for every endpoint.
 */
export type CostRule = 'share' | 'delay' | 'never-queue';
