import { describe, expect, it } from 'vitest';
import { ConnectGate, type WaitingDial } from '../../../src/pool/connect-gate.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';

/** Visitors by name, and who has begun. */
function gate(limit: number): {
  gate: ConnectGate;
  begun: string[];
  enter(name: string, failures?: number): WaitingDial;
  clock: FakeClock;
} {
  const begun: string[] = [];
  const clock = new FakeClock();
  const made = new ConnectGate(limit, clock);
  return {
    clock,
    gate: made,
    begun,
    enter(name, failures = 0) {
      const visitor = { begin: () => begun.push(name) };
      made.enqueue(visitor, failures);
      return visitor;
    },
  };
}

describe('the connect gate', () => {
  it('lets a limited number of attempts begin at once, and the others in order as earlier ones end', async () => {
    const { gate: subject, begun, enter } = gate(2);
    const [a] = ['a', 'b', 'c', 'd'].map((name) => enter(name));
    expect(begun).toEqual(['a', 'b']);
    subject.ended(a as WaitingDial, true);
    await settle();
    expect(begun).toEqual(['a', 'b', 'c']);
  });

  it('drops an attempt that stops waiting', async () => {
    const { gate: subject, begun, enter } = gate(1);
    const [a, b] = ['a', 'b', 'c'].map((name) => enter(name)) as [WaitingDial, WaitingDial];
    expect(subject.cancel(b)).toBe(true);
    expect(subject.cancel(a)).toBe(false);
    subject.ended(a, true);
    await settle();
    expect(begun).toEqual(['a', 'c']);
  });

  it('starts no attempt that is aborted in the same turn as those before it', async () => {
    const { gate: subject, begun, enter } = gate(2);
    const visitors = Array.from({ length: 1_000 }, (_, i) => enter(String(i)));
    for (const visitor of visitors) if (!subject.cancel(visitor)) subject.ended(visitor, false);
    await settle();
    expect(begun).toHaveLength(2);
  });

  it('lets new attempts pass those whose endpoint failed recently, and reserves half of the places for them', async () => {
    const { gate: subject, begun, enter } = gate(4);
    const failing = Array.from({ length: 100 }, (_, i) => enter(`failing ${i}`, 1));
    expect(begun).toEqual(['failing 0', 'failing 1']);
    enter('new 1');
    enter('new 2');
    expect(begun.slice(2)).toEqual(['new 1', 'new 2']);
    enter('new 3');
    subject.ended(failing[0] as WaitingDial, false);
    await settle();
    expect(begun.slice(4)).toEqual(['new 3']);
  });

  it('always has a place for an attempt whose endpoint failed', () => {
    const { begun, enter } = gate(1);
    enter('failing', 1);
    expect(begun).toEqual(['failing']);
  });

  it('has no bound where the limit is Infinity', () => {
    const { begun, enter } = gate(Number.POSITIVE_INFINITY);
    for (let i = 0; i < 500; i++) enter(String(i));
    expect(begun).toHaveLength(500);
  });

  it('allows 50 attempts per second on endpoints that failed recently, however fast they fail again', async () => {
    for (const limit of [32, Number.POSITIVE_INFINITY]) {
      const { gate: subject, enter, clock } = gate(limit);
      let begun = 0;
      const visitors = Array.from({ length: 1_000 }, () => ({
        begin() {
          begun++;
          clock.timer(() => {
            subject.ended(this, false);
            subject.enqueue(this, 10);
          }, 1);
        },
      }));
      for (const visitor of visitors) subject.enqueue(visitor, 10);
      await clock.advanceAsync(1_000);
      expect(begun).toBeLessThanOrEqual(100);
      const before = begun;
      await clock.advanceAsync(10_000);
      expect(begun - before).toBeGreaterThanOrEqual(499);
      expect(begun - before).toBeLessThanOrEqual(501);
      // Nobody new waits for it.
      const now = begun;
      enter('new');
      expect(begun).toBe(now);
      // Those that run come back once more.
      for (const visitor of visitors) subject.cancel(visitor);
      await clock.advanceAsync(1);
      for (const visitor of visitors) subject.cancel(visitor);
      expect(clock.timers).toBe(0);
    }
  });

  it('gives each of these a turn, and every other turn to those that failed only a few times', async () => {
    const { gate: subject, clock } = gate(32);
    const turns = new Map<string, number>();
    const visitor = (name: string, failures: number): WaitingDial => ({
      begin() {
        turns.set(name, (turns.get(name) ?? 0) + 1);
        clock.timer(() => {
          subject.ended(this, false);
          subject.enqueue(this, failures);
        }, 1);
      },
    });
    for (let i = 0; i < 500; i++) subject.enqueue(visitor(`gone ${i}`, 4), 4);
    for (let i = 0; i < 50; i++) subject.enqueue(visitor(`starting ${i}`, 3), 3);
    await clock.advanceAsync(41_000);
    const of = (kind: string): number[] =>
      [...turns].filter(([name]) => name.startsWith(kind)).map(([, count]) => count);
    expect(of('gone')).toHaveLength(500);
    expect(Math.max(...of('gone')) - Math.min(...of('gone'))).toBeLessThanOrEqual(1);
    expect(Math.max(...of('starting')) - Math.min(...of('starting'))).toBeLessThanOrEqual(1);
    const sum = (counts: number[]): number => counts.reduce((a, b) => a + b, 0);
    // The first few began before the others came.
    expect(Math.abs(sum(of('gone')) - sum(of('starting')))).toBeLessThanOrEqual(16);
  });

  it('does not count an attempt that connects', async () => {
    const { gate: subject, clock } = gate(4);
    let connected = 0;
    for (let i = 0; i < 1_000; i++) {
      subject.enqueue(
        {
          begin() {
            clock.timer(() => {
              connected++;
              subject.ended(this, true);
            }, 1);
          },
        },
        10,
      );
    }
    // Two at a time, each 1 ms.
    await clock.advanceAsync(510);
    expect(connected).toBe(1_000);
    expect(clock.timers).toBe(0);
  });
});
