import { describe, expect, it } from 'vitest';
import { Keepalive } from '../../../../src/adapter/http2/session.js';
import { createEndpoint } from '../../../../src/index.js';

const podAt = (port: number) => createEndpoint({ address: '10.0.0.1', port });
const pod = podAt(1);
const other = podAt(2);

describe('the interval of PINGs', () => {
  it('doubles for a pod that rejects them, up to ten minutes, and for no other', () => {
    const keepalive = new Keepalive(1_000);
    keepalive.slowDown(pod);
    expect([keepalive.intervalMs(pod), keepalive.intervalMs(other)]).toEqual([2_000, 1_000]);
    for (let times = 0; times < 40; times++) keepalive.slowDown(pod);
    expect([keepalive.intervalMs(pod), keepalive.intervalMs(other)]).toEqual([600_000, 1_000]);
  });

  it('never gets shorter than the option', () => {
    const keepalive = new Keepalive(3_600_000);
    keepalive.slowDown(pod);
    expect(keepalive.intervalMs(pod)).toBe(3_600_000);
    const off = new Keepalive(Number.POSITIVE_INFINITY);
    off.slowDown(pod);
    expect(off.intervalMs(pod)).toBe(Number.POSITIVE_INFINITY);
  });

  it('is remembered for the last thousand pods that rejected them', () => {
    const keepalive = new Keepalive(1_000);
    for (let port = 1; port <= 1_001; port++) {
      keepalive.slowDown(podAt(port));
      keepalive.slowDown(podAt(2));
    }
    expect(keepalive.intervalMs(podAt(1))).toBe(1_000);
    expect(keepalive.intervalMs(podAt(2))).toBe(600_000);
    expect(keepalive.intervalMs(podAt(1_001))).toBe(2_000);
  });
});
