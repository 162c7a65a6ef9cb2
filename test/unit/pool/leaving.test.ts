import { describe, expect, it } from 'vitest';
import type { Leaving } from '../../../src/pool/leave-notice.js';
import { readyHouse } from '../../support/subchannel-house.js';

const reasonOf = (signal: AbortSignal): Leaving => signal.reason as Leaving;

describe('the signal that an endpoint leaves', () => {
  it('aborts when the endpoint leaves the set, and says until when calls may stay', async () => {
    const house = await readyHouse({ pool: { drainTimeoutMs: 12_000 } });
    const call = house.call();
    const { leaving } = house.subchannel;
    expect(leaving.aborted).toBe(false);
    await house.clock.advanceAsync(1_000);
    house.subchannel.drain(true);
    expect(leaving.aborted).toBe(true);
    expect(reasonOf(leaving)).toEqual({ endpoint: house.endpoint, untilMs: house.clock.now() + 12_000 });
    call.end();
  });

  it('aborts once, also when the endpoint is first gone from the set and then known to terminate', async () => {
    const house = await readyHouse();
    let told = 0;
    house.subchannel.leaving.addEventListener('abort', () => told++);
    const call = house.call();
    house.subchannel.drain(false);
    house.subchannel.drain(true);
    call.end();
    expect(told).toBe(1);
  });

  it('is aborted already for whoever asks late', async () => {
    const house = await readyHouse({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    const call = house.call();
    house.subchannel.drain(true);
    expect(reasonOf(house.subchannel.leaving).untilMs).toBe(Number.POSITIVE_INFINITY);
    call.end();
  });

  it('is a new one for calls after the endpoint came back (T2); the old one stays aborted', async () => {
    const house = await readyHouse();
    const before = house.subchannel.leaving;
    house.subchannel.drain(false);
    house.subchannel.revive();
    const after = house.subchannel.leaving;
    expect([before.aborted, after.aborted]).toEqual([true, false]);
    house.subchannel.destroy();
    expect(after.aborted).toBe(true);
  });

  it('is the same for all calls, and takes a thousand listeners without a warning', async () => {
    const warned: Error[] = [];
    const hear = (warning: Error): void => void warned.push(warning);
    process.on('warning', hear);
    const house = await readyHouse();
    for (let i = 0; i < 1_000; i++) house.subchannel.leaving.addEventListener('abort', () => {});
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', hear);
    expect(warned).toEqual([]);
  });
});
