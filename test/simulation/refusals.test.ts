import { describe, expect, it } from 'vitest';
import { play } from './lib/balance.js';
import { withRefusals, withReports } from './lib/contenders.js';
import { fleet } from './lib/fleet.js';
import { PROOF, SEEDS } from './lib/proof.js';
import { exponential } from './lib/server.js';

const EFFORT = PROOF ? 1 : 0.25;

describe.each(SEEDS)('pods that refuse calls that would have to queue (seed %i)', (seed) => {
  it('shorten the slowest responses where many clients have few calls each', async () => {
    const scenario = fleet(100, 30, 0.67);
    const [plain] = await play(withReports, seed, scenario, EFFORT);
    const [tally] = await play(withRefusals, seed, scenario, EFFORT);
    expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(0.8 * plain.quantileMs(0.99));
    expect(tally.refusals / tally.calls).toBeGreaterThan(0.2);
    expect(tally.refusals / tally.calls).toBeLessThan(0.6);
  });

  it('refuse no call where calls wait for something else, fifty at a time', async () => {
    const waiting = { servers: 10, clients: 10, callsPerSecond: 5_000, serviceTime: exponential(100) };
    const more = { workers: Number.POSITIVE_INFINITY, warmUpMs: 2_000, lengthMs: 8_000 };
    const [tally] = await play(withRefusals, seed, { ...waiting, ...more }, EFFORT);
    expect(tally.calls).toBeGreaterThan(5_000);
    expect(tally.refusals).toBe(0);
  });

  it('refuse few calls where all are full', async () => {
    const [tally] = await play(withRefusals, seed, fleet(20, 30, 1.2, { warmUpMs: 0, lengthMs: 20_000 }), EFFORT);
    expect(tally.refusals / tally.calls).toBeLessThan(0.3);
  });
});
