import type { PickSet } from '../picker/picker.js';
import type { Member } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';

/**
 * What a picker may choose from: the pool's members without those on standby, the ready ones separately. With `only`, no other
 * counts as ready.
 */
export function pickSetOf<C>(members: readonly Member<C>[], only?: readonly Subchannel<C>[]): PickSet<C> {
  const subchannels: Subchannel<C>[] = [];
  const weights: number[] = [];
  const all: Subchannel<C>[] = [];
  const allWeights: number[] = [];
  let equalWeights = true;
  for (const { subchannel, weight } of members) {
    // Also excludes invalid weights from a stage (NaN), which would break every comparison.
    if (!(weight > 0 && weight < Number.POSITIVE_INFINITY)) continue;
    all.push(subchannel);
    allWeights.push(weight);
    if (subchannel.state !== 'ready' || only?.includes(subchannel) === false) continue;
    if (weight !== (weights[0] ?? weight)) equalWeights = false;
    subchannels.push(subchannel);
    weights.push(weight);
  }
  return { subchannels, weights, equalWeights, all, allWeights };
}
