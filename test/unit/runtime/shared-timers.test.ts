import { describe, expect, it } from 'vitest';
import { SharedTimers } from '../../../src/runtime/shared-timers.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

class World {
  readonly clock: FakeClock = new FakeClock(0);
  readonly timers: SharedTimers = new SharedTimers(this.clock);
  /** What fired, with the time it did. */
  readonly fired: string[] = [];

  start(delayMs: number, name: string): { cancel(): void } {
    return this.timers.start(delayMs, { timedOut: () => this.fired.push(`${name} ${this.clock.now()}`) });
  }
}

describe('shared timers', () => {
  it('fire after their delay, each once, in order', () => {
    const world = new World();
    world.start(100, 'a');
    world.clock.advance(30);
    world.start(100, 'b');
    world.start(50, 'c');
    world.clock.advance(1_000);
    expect(world.fired).toEqual(['c 80', 'a 100', 'b 130']);
    expect(world.clock.timers).toBe(0);
  });

  it('share one timer of the clock, however many there are', () => {
    const world = new World();
    for (let i = 0; i < 1_000; i++) world.start(100, `${i}`);
    expect(world.clock.timers).toBe(1);
    expect(world.clock.referencedTimers).toBe(0);
    world.clock.advance(100);
    expect(world.fired).toHaveLength(1_000);
  });

  it('do nothing once cancelled, at the front, in the middle or at the end, also repeatedly', () => {
    const world = new World();
    const timers = ['a', 'b', 'c', 'd', 'e'].map((name) => world.start(100, name));
    expect(world.timers.running).toBe(5);
    for (const index of [0, 2, 4, 2]) timers[index]?.cancel();
    expect(world.timers.running).toBe(2);
    world.clock.advance(100);
    expect(world.fired).toEqual(['b 100', 'd 100']);
    for (const timer of timers) timer.cancel();
    world.start(10, 'f');
    world.clock.advance(10);
    expect(world.fired).toEqual(['b 100', 'd 100', 'f 110']);
  });

  it('may be started and cancelled by a timer that fires', () => {
    const world = new World();
    let second: { cancel(): void } | undefined;
    world.timers.start(100, {
      timedOut: () => {
        second?.cancel();
        world.start(100, 'again');
      },
    });
    second = world.start(100, 'cancelled');
    world.clock.advance(500);
    expect(world.fired).toEqual(['again 200']);
  });

  it('go on when one of them throws', () => {
    const world = new World();
    world.timers.start(100, {
      timedOut: () => {
        throw new Error('its own trouble');
      },
    });
    world.start(100, 'b');
    expect(() => world.clock.advance(100)).toThrow('its own trouble');
    world.clock.advance(1);
    expect(world.fired).toEqual(['b 100']);
  });

  it('that are all cancelled cost one clock timer per delay, not one each', () => {
    const world = new World();
    for (let i = 0; i < 1_000; i++) {
      world.start(1_000, 'never').cancel();
      world.clock.advance(1);
    }
    expect(world.clock.timers).toBeLessThanOrEqual(1);
    world.clock.advance(1_000);
    expect(world.fired).toEqual([]);
    expect(world.clock.timers).toBe(0);
  });

  it('with ever new delays use a limited number of queues, and are late by a sixteenth at most', () => {
    const world = new World();
    const late: number[] = [];
    for (let delayMs = 1; delayMs < 20_000; delayMs++) {
      world.timers.start(delayMs, { timedOut: () => late.push(world.clock.now() / delayMs) });
    }
    expect(world.clock.timers).toBeLessThan(64 + 16 * 15);
    world.clock.advance(30_000);
    expect(late).toHaveLength(19_999);
    expect(Math.min(...late)).toBeGreaterThanOrEqual(1);
    expect(Math.max(...late)).toBeLessThanOrEqual(1 + 1 / 16);
    expect(world.clock.timers).toBe(0);
  });

  it('wait a moment longer after a stall of the event loop', async () => {
    const world = new World();
    world.start(100, 'a');
    await world.clock.stall(5_000);
    expect(world.fired).toEqual([]);
    world.clock.advance(250);
    expect(world.fired).toEqual(['a 5250']);
  });

  it('are silent once closed', () => {
    const world = new World();
    const timer = world.start(100, 'a');
    world.timers.close();
    expect(world.clock.timers).toBe(0);
    world.clock.advance(1_000);
    timer.cancel();
    expect(world.fired).toEqual([]);
  });
});
