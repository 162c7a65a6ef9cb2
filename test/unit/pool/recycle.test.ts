import { FakeClock, seededRng } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import type { Endpoint } from '../../../src/endpoint/endpoint.js';
import { resolvePoolOptions } from '../../../src/pool/pool-options.js';
import { Recycle } from '../../../src/pool/recycle.js';

const endpoint = { attributes: new Map() } as unknown as Endpoint;

/** The delays of the timers of `count` connections of this maximum age. */
function delaysOf(count: number, maxConnectionAgeMs: number): number[] {
  const clock = new FakeClock();
  const owner = { clock, rng: seededRng(1), options: resolvePoolOptions({ maxConnectionAgeMs }) };
  return Array.from({ length: count }, () => {
    const recycle = new Recycle(owner, () => {});
    // Connections are not opened at whole seconds.
    clock.advance(1.5);
    recycle.renew(endpoint);
    recycle.stop();
    clock.advance(0.25);
    recycle.resume();
    const delay = clock.nextInMs as number;
    recycle.stop();
    return delay;
  });
}

describe('the age of a connection', () => {
  // Node keeps a list for each different delay until that is over, although every timer in it was cancelled.
  it('ends at whole seconds, so that ten thousand connections have few different timers', () => {
    const delays = delaysOf(10_000, 1_800_000);
    expect(new Set(delays).size).toBeLessThanOrEqual(1_801);
    expect(Math.min(...delays)).toBeLessThan(920_000);
    expect(Math.max(...delays)).toBeGreaterThan(2_680_000);
  });

  it('is exact where it is short', () => {
    const delays = delaysOf(1_000, 2_000);
    expect(new Set(delays.map(Math.round)).size).toBeGreaterThan(500);
  });
});
