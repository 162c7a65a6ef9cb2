import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

const [a, b, c, d] = addresses(4) as [string, string, string, string];

/** A stage that marks those endpoints as suspect. */
function suspecting(suspect: ReadonlySet<string>): StageFactory {
  return () => ({
    apply: (set) => set.map((entry) => (suspect.has(entry.endpoint.address) ? { ...entry, suspect: true } : entry)),
  });
}

describe('panic', () => {
  it('puts suspect endpoints on standby while at most half are suspect', () => {
    const pods = new StageFixture([suspecting(new Set([a, b])), panic()]);
    pods.set(addresses(4));
    expect(pods.usable).toEqual([c, d]);
    expect(pods.entry(a)).toMatchObject({ suspect: true, weight: 0 });
    expect(pods.events).toEqual([]);
  });

  it('uses all when more than half are suspect, through whichever stage, and reports it once', () => {
    const suspect = new Set([a, b]);
    const pods = new StageFixture([suspecting(suspect), outlierEjection(), panic()]);
    pods.set(addresses(4));
    pods.completed(c, outcomes.timeout, 5);
    expect(pods.usable).toEqual([a, b, c, d]);
    expect(pods.entry(a)).toMatchObject({ suspect: false, weight: 1 });
    expect(pods.events).toEqual(['panic on 3/4']);
    pods.completed(c, outcomes.success);
    expect(pods.usable).toEqual([c, d]);
    expect(pods.events).toEqual(['panic on 3/4', 'panic off 2/4']);
  });

  it('does not count endpoints on standby', () => {
    const pods = new StageFixture([
      () => ({
        apply: (set) => set.map((entry) => (entry.endpoint.address === d ? { ...entry, weight: 0 } : entry)),
      }),
      suspecting(new Set([a, d])),
      panic(),
    ]);
    pods.set(addresses(4));
    expect(pods.usable).toEqual([b, c]);
  });

  it('does not count suspect endpoints on standby', () => {
    const pods = new StageFixture([
      () => ({
        apply: (set) => set.map((entry) => (entry.endpoint.address === c ? { ...entry, weight: 0 } : entry)),
      }),
      suspecting(new Set([a, c])),
      panic(),
    ]);
    pods.set([a, b, c]);
    // One of two is half; two of three would be more.
    expect(pods.usable).toEqual([b]);
  });

  it('uses suspect endpoints when no other has a connection, and no longer when one has', () => {
    const pods = new StageFixture([suspecting(new Set([a])), panic()]);
    pods.set([a, b, c]);
    expect(pods.usable).toEqual([b, c]);
    pods.disconnected(b, new Error('refused'));
    expect(pods.usable).toEqual([b, c]);
    pods.disconnected(c, new Error('refused'));
    expect(pods.usable).toEqual([a, b, c]);
    pods.connected(b);
    expect(pods.usable).toEqual([b, c]);
  });

  it('leaves an endpoint on probation unlimited when it is the only one with a connection', () => {
    const pods = new StageFixture([outlierEjection(), panic()]);
    pods.set([a, b, c]);
    pods.completed(a, outcomes.timeout, 5);
    pods.clock.advance(1_101);
    expect(pods.entry(a)).toMatchObject({ probation: 1 });
    pods.disconnected(b, new Error('refused'));
    pods.disconnected(c, new Error('refused'));
    expect(pods.entry(a)).toEqual(expect.not.objectContaining({ probation: expect.anything() }));
  });
});
