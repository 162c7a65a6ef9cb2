import type { EventLoopUtilization } from 'node:perf_hooks';
import { describe, expect, it } from 'vitest';
import { formatOffer, parseOffer } from '../../../src/propagation/may-refuse.js';
import { Queueing } from '../../../src/server/queueing.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

/** A pod whose event loop is busy for a share of the time. */
class Fixture {
  readonly clock = new FakeClock();
  inFlight: number | undefined = 0;
  looks = 0;
  readonly #loop = { active: 0, idle: 0, utilization: 0 };
  readonly queueing: Queueing;

  constructor() {
    const eventLoop = (): EventLoopUtilization => {
      this.looks++;
      return { ...this.#loop };
    };
    this.queueing = new Queueing(this, this.clock, eventLoop);
  }

  pass(ms: number, busy: number): this {
    for (let passed = 0; passed < ms; passed++) {
      this.#loop.active += busy;
      this.#loop.idle += 1 - busy;
      this.clock.advance(1);
    }
    return this;
  }

  refuses(typical = 0, left = 2): boolean {
    return this.queueing.refuses({ left, typical });
  }

  /** Requests that may go elsewhere keep coming. */
  after(ms: number, busy: number, inFlight: number): this {
    this.refuses();
    this.inFlight = inFlight;
    return this.pass(ms, busy);
  }
}

describe('a pod that refuses requests that would queue', () => {
  it('refuses while the event loop has been busy for some ms, and two requests are in flight', () => {
    expect(new Fixture().after(50, 1, 2).refuses()).toBe(true);
    expect(new Fixture().after(50, 1, 1).refuses()).toBe(false);
    expect(new Fixture().after(50, 0.6, 2).refuses()).toBe(false);
    expect(new Fixture().after(5, 1, 2).refuses()).toBe(false);
    expect(new Fixture().after(50, 1, 2).pass(20, 0).refuses()).toBe(false);
  });

  it('refuses none while any number of requests waits for something else', () => {
    expect(new Fixture().after(1_000, 0.5, 50).refuses()).toBe(false);
  });

  it('refuses only if more are in flight than elsewhere: half as many again', () => {
    const pod = new Fixture().after(50, 1, 6);
    expect([pod.refuses(6), pod.refuses(4.1), pod.refuses(4), pod.refuses(0)]).toEqual([false, false, true, true]);
  });

  it('refuses no request that may not be refused again, and none while the count is unknown', () => {
    const pod = new Fixture().after(50, 1, 6);
    expect(pod.refuses(0, 0)).toBe(false);
    pod.inFlight = undefined;
    expect(pod.refuses()).toBe(false);
    expect(pod.queueing.refused).toBe(0);
  });

  it('refuses none at first, since the time before is unknown', () => {
    const pod = new Fixture();
    pod.inFlight = 6;
    pod.pass(1_000, 1);
    expect(pod.refuses()).toBe(false);
    pod.pass(20, 1);
    expect(pod.refuses()).toBe(true);
    expect(pod.queueing.refused).toBe(1);
  });
});

it('the event loop is watched only while requests come that may go elsewhere', () => {
  const pod = new Fixture();
  pod.pass(60_000, 1);
  expect(pod.looks).toBe(1);
  pod.refuses();
  pod.pass(20_000, 1);
  const { looks } = pod;
  expect(looks).toBeGreaterThan(1_000);
  pod.pass(60_000, 1);
  expect(pod.looks).toBe(looks);
  pod.refuses();
  pod.queueing.close();
  const closed = pod.looks;
  pod.pass(1_000, 1);
  expect(pod.looks).toBe(closed);
});

it('an offer is parsed as it was written', () => {
  expect(formatOffer({ left: 2, typical: 1.26 })).toBe('2, 1.3');
  expect(parseOffer('2, 1.3')).toEqual({ left: 2, typical: 1.3 });
  for (const value of [undefined, '', '2', '0, 1.0', '2,1.0', '2, -1.0', '2, NaN', '2, 1e9', '12, 1.0', '2, 1.0, 3']) {
    expect(parseOffer(value), value).toBeUndefined();
  }
});
