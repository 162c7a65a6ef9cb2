import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';

describe('a load of calls in flight outside a subchannel', () => {
  it('counts the calls that it is given, as when another load is built on it', () => {
    const load = inFlight()();
    load.start(0);
    load.start(0);
    expect(load.value(0)).toBe(3);
    load.end(0, 5, outcomes.success);
    expect(load.value(5)).toBe(2);
  });

  it('shares nothing with another one', () => {
    const factory = peakEwma();
    const [slow, fast] = [factory(), factory()];
    for (const load of [slow, fast]) load.start(0);
    slow.end(0, 200, outcomes.success);
    fast.end(0, 2, outcomes.success);
    expect(slow.value(200)).toBeGreaterThan(50 * fast.value(200));
  });
});
