import { describe, expect, it } from 'vitest';
import { perEndpointError } from '../../../src/credentials/per-endpoint.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { EvenkeelError } from '../../../src/errors.js';
import { type ActiveHealthOptions, activeHealth } from '../../../src/stage/active-health.js';
import { panic } from '../../../src/stage/panic.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

const [a, b, c] = addresses(3) as [string, string, string];

function fixture(options?: ActiveHealthOptions): StageFixture {
  const pods = new StageFixture([activeHealth(options), panic()]);
  pods.set([a, b, c]);
  return pods;
}

const refuse = (): Promise<void> => Promise.reject(new Error('no pong'));

describe('active health', () => {
  it('marks an endpoint as suspect after three failed probes, and clears it after two successful ones', async () => {
    const pods = fixture();
    pods.probes.set(a, refuse);
    await pods.clock.advanceAsync(12_000);
    expect(pods.usable).toEqual([a, b, c]);
    await pods.clock.advanceAsync(24_000);
    expect(pods.usable).toEqual([b, c]);
    expect(pods.events).toEqual([`ejected ${a}: 3 probes of ${a}:80 failed: no pong`]);
    pods.probes.delete(a);
    await pods.clock.advanceAsync(24_000);
    expect(pods.usable).toEqual([a, b, c]);
    expect(pods.events.at(-1)).toBe(`restored ${a}: 2 probes succeeded`);
  });

  it('ignores a probe for which a function of ours failed, and continues', async () => {
    const pods = fixture();
    pods.probes.set(a, () =>
      Promise.reject(perEndpointError('tls', createEndpoint({ address: a, port: 80 }), 'failed: no token')),
    );
    await pods.clock.advanceAsync(60_000);
    expect(pods.usable).toEqual([a, b, c]);
    expect(pods.events).toEqual([]);
    pods.probes.set(a, refuse);
    await pods.clock.advanceAsync(60_000);
    expect(pods.usable).toEqual([b, c]);
  });

  it('does not clear an endpoint after one successful probe', async () => {
    const pods = fixture({ intervalMs: 1_000 });
    pods.probes.set(a, refuse);
    await pods.clock.advanceAsync(5_000);
    expect(pods.usable).toEqual([b, c]);
    let good = 0;
    pods.probes.set(a, async () => {
      good++;
    });
    for (const [wanted, usable] of [
      [1, [b, c]],
      [2, [a, b, c]],
    ] as const) {
      for (let step = 0; step < 200 && good < wanted; step++) await pods.clock.advanceAsync(10);
      expect(good).toBe(wanted);
      expect(pods.usable).toEqual(usable);
    }
  });

  it('spreads probes: the first over the interval, later ones by ± 20 %', async () => {
    const askedAtMs = new Map<string, number[]>();
    const pods = new StageFixture([
      activeHealth({
        check: async ({ address }) => {
          askedAtMs.set(address, [...(askedAtMs.get(address) ?? []), pods.clock.now()]);
        },
      }),
    ]);
    const startMs = pods.clock.now();
    pods.set(addresses(30));
    await pods.clock.advanceAsync(25_000);
    const asked = [...askedAtMs.values()];
    const firsts = asked.map(([first = Number.NaN]) => first - startMs);
    expect(firsts).toHaveLength(30);
    expect(Math.min(...firsts)).toBeLessThan(3_000);
    expect(Math.max(...firsts)).toBeGreaterThan(7_000);
    expect(Math.max(...firsts)).toBeLessThanOrEqual(10_000);
    const pauses = asked.map(([first = 0, second = 0]) => second - first);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(8_000);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(12_000);
    expect(Math.max(...pauses) - Math.min(...pauses)).toBeGreaterThan(1_000);
  });

  it('counts only consecutive probes', async () => {
    const pods = fixture({ intervalMs: 1_000 });
    let probes = 0;
    pods.probes.set(a, () => (++probes % 3 === 0 ? Promise.resolve() : refuse()));
    await pods.clock.advanceAsync(60_000);
    expect(probes).toBeGreaterThan(40);
    expect(pods.usable).toEqual([a, b, c]);
  });

  it('counts no answer within timeoutMs as a failure, and aborts the probe', async () => {
    const signals: AbortSignal[] = [];
    const pods = fixture({
      intervalMs: 1_000,
      timeoutMs: 200,
      check: (endpoint, signal) => {
        if (endpoint.address !== a) return Promise.resolve();
        signals.push(signal);
        return new Promise(() => {});
      },
    });
    await pods.clock.advanceAsync(5_000);
    expect(pods.usable).toEqual([b, c]);
    expect(signals[0]?.aborted).toBe(true);
  });

  it('does not probe endpoints without a connection, and drops the answer to a running probe', async () => {
    let probes = 0;
    const pods = fixture({
      intervalMs: 1_000,
      unhealthyAfter: 1,
      check: (_, signal) => {
        probes++;
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('aborted')));
        });
      },
    });
    await pods.clock.advanceAsync(1_000);
    expect(probes).toBe(3);
    for (const address of [a, b, c]) pods.disconnected(address, new Error('gone'));
    await pods.clock.advanceAsync(60_000);
    expect(probes).toBe(3);
    expect(pods.result.entries.some(({ suspect }) => suspect)).toBe(false);
  });

  it('stops, and reports it once, where the transport cannot ping', async () => {
    const pods = fixture({ intervalMs: 1_000 });
    const impossible = (): Promise<void> => Promise.reject(new EvenkeelError('EVENKEEL_OPTION', 'no ping here'));
    for (const address of [a, b, c]) pods.probes.set(address, impossible);
    await pods.clock.advanceAsync(60_000);
    expect(pods.events).toEqual(['warned: activeHealth does nothing: no ping here']);
    expect(pods.usable).toEqual([a, b, c]);
    expect(pods.clock.timers).toBe(0);
  });

  it('leaves no timer when endpoints go, or when it is closed', async () => {
    const pods = fixture();
    pods.set([a, b]);
    expect(pods.clock.timers).toBe(2);
    pods.close();
    await settle();
    expect(pods.clock.timers).toBe(0);
  });
});
