/**
 * How load and weight make up the cost of one more call. With `unit` = load / (calls in flight + 1) and `step` = mean
 * weight / weight:
 *
 * - `share`: unit × (calls in flight × step + 1). The weight applies to the calls that run, not to the call to come:
 *   idle endpoints cost the same whatever their weights, so that turns or draws by weight decide between them, and
 *   under load calls in flight per weight even out.
 *   A load that knows of others' calls says its unit; they count as calls that run.
 * - `delay`: load × step. The call to come counts as well: how long it would wait if weight were speed.
 * - `never-queue`: an idle endpoint costs less than any busy one; among busy ones as `delay`.
 *
 * Pickers write this out where they need it: a function that returned it would box a number per endpoint.
 */
export type CostRule = 'share' | 'delay' | 'never-queue';
