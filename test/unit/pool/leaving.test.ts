import { describe, expect, it } from 'vitest';
import type { Leaving } from '../../../src/pool/drain.js';
import { readyFixture } from '../../support/fixtures/subchannel-fixture.js';

const reasonOf = (signal: AbortSignal): Leaving => signal.reason as Leaving;

describe('the signal that an endpoint leaves', () => {
  it('aborts when the endpoint leaves the set, and says until when calls may stay', async () => {
    const fixture = await readyFixture({ pool: { drainTimeoutMs: 12_000 } });
    const call = fixture.call();
    const { leaving } = fixture.subchannel;
    expect(leaving.aborted).toBe(false);
    await fixture.clock.advanceAsync(1_000);
    fixture.subchannel.drain(true);
    expect(leaving.aborted).toBe(true);
    expect(reasonOf(leaving)).toEqual({ endpoint: fixture.endpoint, untilMs: fixture.clock.now() + 12_000 });
    call.end();
  });

  it('aborts once, also when the endpoint is first gone from the set and then known to terminate', async () => {
    const fixture = await readyFixture();
    let told = 0;
    fixture.subchannel.leaving.addEventListener('abort', () => told++);
    const call = fixture.call();
    fixture.subchannel.drain(false);
    fixture.subchannel.drain(true);
    call.end();
    expect(told).toBe(1);
  });

  it('is aborted already for a listener that comes late', async () => {
    const fixture = await readyFixture({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    const call = fixture.call();
    fixture.subchannel.drain(true);
    expect(reasonOf(fixture.subchannel.leaving).untilMs).toBe(Number.POSITIVE_INFINITY);
    call.end();
  });

  it('is a new one for calls after the endpoint returned (T2); the old one stays aborted', async () => {
    const fixture = await readyFixture();
    const before = fixture.subchannel.leaving;
    fixture.subchannel.drain(false);
    fixture.subchannel.revive();
    const after = fixture.subchannel.leaving;
    expect([before.aborted, after.aborted]).toEqual([true, false]);
    fixture.subchannel.destroy();
    expect(after.aborted).toBe(true);
  });

  it('is the same for all calls, and takes a thousand listeners without a warning', async () => {
    const warned: Error[] = [];
    const hear = (warning: Error): void => void warned.push(warning);
    process.on('warning', hear);
    const fixture = await readyFixture();
    for (let i = 0; i < 1_000; i++) fixture.subchannel.leaving.addEventListener('abort', () => {});
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', hear);
    expect(warned).toEqual([]);
  });
});
