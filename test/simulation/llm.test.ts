import { expect, it } from 'vitest';
import { p2c } from '../../src/picker/p2c.js';
import { prefixKey } from '../../src/picker/request-key.js';
import { type LlmOptions, playLlm } from './lib/llm.js';
import { PROOF, SEEDS } from './lib/proof.js';

const { picker } = prefixKey();
/** The load at which pods without a good cache are two thirds busy. */
const usual = { callsPerSecond: 6, ...(PROOF ? {} : { lengthMs: 200_000 }) };

async function both(more: Partial<LlmOptions>) {
  const without = await playLlm({ seed: 1, ...usual, picker: p2c(), keyed: false, reports: true, ...more });
  const keyed = await playLlm({ seed: 1, ...usual, picker, keyed: true, reports: true, ...more });
  return { without, keyed };
}

it.each(SEEDS)(
  '500 sessions on 8 pods that cache 60 each: hits and times to the first token (seed %i)',
  async (seed) => {
    const { without, keyed } = await both({ seed });
    expect(without.hitRatio).toBeLessThan(0.16);
    expect(keyed.hitRatio).toBeGreaterThanOrEqual(0.58);
    expect(keyed.firstToken.quantileMs(0.95)).toBeLessThanOrEqual(without.firstToken.quantileMs(0.95));
  },
);

it('the same holds with several clients, without reports, and with a few sessions that make most requests', async () => {
  const busy = { callsPerSecond: 25, skew: 1.2, clients: 4 };
  for (const more of [busy, { clients: 4 }, { clients: 4, reports: false }, { skew: 1 }, { skew: 1, clients: 4 }]) {
    const { without, keyed } = await both(more);
    expect(keyed.hitRatio, JSON.stringify(more)).toBeGreaterThan(without.hitRatio);
    expect(keyed.firstToken.quantileMs(0.95)).toBeLessThanOrEqual(without.firstToken.quantileMs(0.95));
  }
});
