import { describe, expect, it } from 'vitest';
import { SharedTimers } from '../../../src/runtime/shared-timers.js';
import { ServedCall } from '../../../src/server/served-call.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

function served(deadlineMs?: number) {
  const clock = new FakeClock();
  const timers = new SharedTimers(clock);
  return { clock, timers, call: new ServedCall({ clock, timers, admission: undefined }, deadlineMs, undefined) };
}

describe('a request being served', () => {
  it('knows how much of its time is left', () => {
    const { clock, call } = served(100);
    expect([call.remainingMs, call.cameLate]).toEqual([100, false]);
    clock.advance(100);
    expect(call.remainingMs).toBe(0);
    expect(served(0).call.cameLate).toBe(true);
    expect(served().call.remainingMs).toBeUndefined();
  });

  it('has a signal that aborts at the deadline, and needs no timer before the signal is used', () => {
    const { clock, timers, call } = served(100);
    expect(timers.running).toBe(0);
    const { signal } = call;
    clock.advance(99);
    expect(signal.aborted).toBe(false);
    clock.advance(10);
    expect(signal.reason).toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    expect(timers.running).toBe(0);
  });

  it('has a signal that aborts when the caller leaves, and not after a complete response', () => {
    const left = served(100);
    const { signal } = left.call;
    left.call.over(false, false);
    expect(signal.reason).toMatchObject({ name: 'AbortError' });
    const answered = served(100);
    const kept = answered.call.signal;
    answered.call.over(true, false);
    answered.clock.advance(1_000);
    expect([kept.aborted, answered.timers.running]).toEqual([false, 0]);
  });

  it('has an aborted signal if that is first used after the end', () => {
    const left = served();
    left.call.over(false, false);
    expect(left.call.signal.aborted).toBe(true);
    const late = served(10);
    late.clock.advance(10);
    expect(late.call.signal.reason).toMatchObject({ code: 'EVENKEEL_DEADLINE' });
  });
});
