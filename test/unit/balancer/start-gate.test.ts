import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { StartGate } from '../../../src/balancer/start-gate.js';
import { EvenkeelError } from '../../../src/errors.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { failure, stateOf } from '../../support/fixtures/balancer-fixture.js';

const late = (): EvenkeelError => new EvenkeelError('EVENKEEL_NOT_READY', 'late');
const forbidden = new EvenkeelError('EVENKEEL_FORBIDDEN', 'forbidden');

describe('the start gate (W16)', () => {
  it('opens for all that wait and all that come later', async () => {
    const clock = new FakeClock();
    const gate = new StartGate(clock, 1_000, late);
    const waiting = [gate.wait(undefined), gate.wait(undefined)];
    expect(clock.referencedTimers).toBe(2);
    gate.open();
    await Promise.all([...waiting, gate.wait(undefined)]);
    expect(clock.timers).toBe(0);
  });

  it('counts the time from its creation, not from each call', async () => {
    const clock = new FakeClock();
    const gate = new StartGate(clock, 1_000, late);
    await clock.advanceAsync(900);
    const waiting = failure(gate.wait(undefined));
    await clock.advanceAsync(100);
    expect(await waiting).toMatchObject({ message: 'late' });
    const after = failure(gate.wait(undefined));
    await clock.advanceAsync(0);
    expect(await after).toMatchObject({ message: 'late' });
    gate.open();
    await gate.wait(undefined);
    expect(clock.timers).toBe(0);
  });

  it('fails for all at once, and still opens when there are endpoints later', async () => {
    const gate = new StartGate(new FakeClock(), 1_000, late);
    const waiting = failure(gate.wait(undefined));
    gate.fail(forbidden);
    expect(await waiting).toBe(forbidden);
    expect(await failure(gate.wait(undefined))).toBe(forbidden);
    gate.open();
    await gate.wait(undefined);
  });

  it('lets a caller leave by its signal, and keeps no listener on it', async () => {
    const clock = new FakeClock();
    const gate = new StartGate(clock, 1_000, late);
    const controller = new AbortController();
    const leaving = failure(gate.wait(controller.signal));
    const staying = gate.wait(new AbortController().signal);
    controller.abort(new Error('enough'));
    expect(await leaving).toMatchObject({ message: 'enough' });
    expect(await failure(gate.wait(controller.signal))).toMatchObject({ message: 'enough' });
    expect(await stateOf(staying)).toBe('pending');
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    gate.open();
    await staying;
    expect(clock.timers).toBe(0);
  });
});
