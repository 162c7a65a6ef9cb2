import type { Subchannel } from '../pool/subchannel.js';

/**
 * What one more call on `subchannel` costs, its weight counted in. `step` = mean weight / its weight.
 *
 * The weight applies to the calls that run, not to the call to come: two idle endpoints cost the same whatever their
 * weights, so draws by weight decide between them, and under load calls in flight per weight even out. With equal
 * weights this is the load's own value.
 */
export function costOf<C>(subchannel: Subchannel<C>, step: number, nowMs: number): number {
  const value = subchannel.load.value(nowMs);
  if (step === 1) return value;
  const { inFlight } = subchannel;
  return (value * (inFlight * step + 1)) / (inFlight + 1);
}
