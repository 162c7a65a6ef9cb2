import { describe, expect, it } from 'vitest';
import { isEvenkeelError } from '../../../src/errors.js';
import { type AdaptiveOptions, adaptive } from '../../../src/limit/adaptive.js';
import type { Limit } from '../../../src/limit/limit.js';

/** A Service that works on `capacity` calls at once, each in `usualMs`; beyond that they queue. */
interface Service {
  readonly capacity: number;
  readonly usualMs: number;
}

/** Callers who keep as many calls running as they want and the limit allows. */
class Callers {
  readonly limit: Limit;
  nowMs = 0;

  constructor(options?: AdaptiveOptions) {
    this.limit = adaptive(options)();
  }

  /** For so long, in ms. Returns the limit. */
  call({ capacity, usualMs }: Service, wanted: number, ms: number): number {
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) {
      const inFlight = Math.min(wanted, this.limit.max);
      const latencyMs = usualMs * Math.max(1, inFlight / capacity);
      this.nowMs += latencyMs / inFlight;
      this.limit.answered(latencyMs, inFlight, this.nowMs);
    }
    return this.limit.max;
  }
}

const service = { capacity: 16, usualMs: 20 };

describe('adaptive()', () => {
  it('falls to what the Service can answer in time, and stays there', () => {
    const callers = new Callers();
    callers.call(service, 10, 5_000);
    expect(callers.call(service, 1_000, 5_000)).toBeLessThanOrEqual(3 * 16);
    // However long it lasts: what is usual does not follow an overload.
    for (let second = 0; second < 600; second++) {
      const max = callers.call(service, 1_000, 1_000);
      expect(max).toBeGreaterThanOrEqual(16);
      expect(max).toBeLessThanOrEqual(3 * 16);
    }
  });

  it('leaves a Service that is not overloaded unlimited', () => {
    const callers = new Callers();
    expect(callers.call(service, 16, 60_000)).toBe(100);
  });

  it('follows a Service that doubles within five seconds', () => {
    const callers = new Callers();
    callers.call(service, 10, 5_000);
    const before = callers.call(service, 1_000, 20_000);
    expect(callers.call({ ...service, capacity: 32 }, 1_000, 5_000)).toBeGreaterThanOrEqual(1.7 * before);
  });

  it('falls to no less than half if that makes calls no faster, and learns the new usual latency', () => {
    const callers = new Callers({ initial: 60 });
    callers.call({ capacity: 1_000, usualMs: 20 }, 60, 10_000);
    const before = callers.limit.max;
    for (let second = 0; second < 60; second++) {
      expect(callers.call({ capacity: 1_000, usualMs: 60 }, before, 1_000)).toBeGreaterThanOrEqual(0.45 * before);
    }
    for (let second = 0; second < 30; second++) {
      expect(callers.call({ capacity: 1_000, usualMs: 60 }, before, 1_000)).toBeGreaterThanOrEqual(before);
    }
  });

  it('lets calls through again within seconds if they became slower for another reason', () => {
    const callers = new Callers();
    const idle = { capacity: 100_000, usualMs: 20 };
    callers.call(idle, 60, 10_000);
    callers.call({ ...idle, usualMs: 200 }, 600, 10_000);
    for (let second = 0; second < 60; second++) {
      expect(callers.call({ ...idle, usualMs: 200 }, 600, 1_000)).toBeGreaterThanOrEqual(600);
    }
  });

  it('does not react to a few calls that take much longer', () => {
    const { limit } = new Callers();
    for (let call = 0; call < 50_000; call++) limit.answered(call % 5 === 0 ? 30_000 : 10, 50, 10 * call);
    expect(limit.max).toBe(100);
  });

  it('lowers a raised usual latency again when most callers give up', () => {
    const callers = new Callers();
    callers.call({ capacity: 100_000, usualMs: 20 }, 60, 10_000);
    callers.call({ capacity: 100_000, usualMs: 80 }, 240, 10_000);
    expect(callers.limit.max).toBeGreaterThanOrEqual(240);
    for (let calls = 0; calls < 500; calls++) callers.limit.gaveUp(100, 240, callers.nowMs + calls * 10);
    expect(callers.limit.max).toBeLessThanOrEqual(60);
  });

  it('is unchanged after an idle minute', () => {
    const callers = new Callers();
    callers.call(service, 10, 5_000);
    const before = callers.call(service, 1_000, 20_000);
    callers.nowMs += 60_000;
    expect(callers.call(service, 5, 2_000)).toBe(before);
  });

  it('never falls below min, however slow calls are', () => {
    const callers = new Callers({ min: 8 });
    callers.call(service, 10, 5_000);
    for (let second = 0; second < 30; second++) {
      expect(callers.call({ capacity: 1, usualMs: 20 }, 1_000, 1_000)).toBeGreaterThanOrEqual(8);
    }
  });

  it('never rises above max', () => {
    const callers = new Callers({ initial: 50, max: 60 });
    expect(callers.call({ capacity: 10_000, usualMs: 20 }, 1_000, 60_000)).toBe(60);
  });

  it('falls by a tenth when an endpoint is overloaded, once per window', () => {
    const { limit } = new Callers();
    for (let nowMs = 0; nowMs < 50; nowMs++) limit.overloaded(nowMs);
    expect(limit.max).toBe(90);
  });

  it('goes on falling, a tenth per 100 ms, while every endpoint refuses every call, and recovers when they no longer do', () => {
    const callers = new Callers();
    callers.call(service, 16, 1_000);
    const { limit, nowMs } = callers;
    const before = limit.max;
    for (let atMs = 1; atMs <= 1_000; atMs++) limit.overloaded(nowMs + atMs);
    expect(limit.max).toBeLessThan(before * 0.9 ** 9);
    expect(limit.max).toBeGreaterThan(before * 0.9 ** 12);
    callers.nowMs += 1_000;
    expect(callers.call(service, before, 1_000)).toBeGreaterThanOrEqual(16);
  });

  it('learns from callers that gave up late, and nothing from those that left early', () => {
    const late = new Callers();
    late.call(service, 100, 200);
    const before = late.limit.max;
    for (let calls = 0; calls < 500; calls++) late.limit.gaveUp(1_000, 100, late.nowMs + calls * 20);
    expect(late.limit.max).toBeLessThan(before / 2);
    const early = new Callers();
    early.call(service, 16, 200);
    for (let calls = 0; calls < 500; calls++) early.limit.gaveUp(1, 100, early.nowMs + calls * 20);
    expect(early.limit.max).toBe(100);
  });

  it.each([
    { initial: 0 },
    { min: 0 },
    { max: Number.NaN },
    { min: 20, max: 10 },
    { tolerance: 0.5 },
    { shedAfterMs: 0 },
    { unknown: 1 },
  ] as AdaptiveOptions[])('refuses %o', (options) => {
    expect(() => adaptive(options)).toThrow(expect.toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OPTION')));
  });
});
