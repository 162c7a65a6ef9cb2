import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { expectNothingLeft, readyFixture, SubchannelFixture } from '../../support/fixtures/subchannel-fixture.js';

const AGE_MS = 60_000;

describe('a subchannel that drains (T1)', () => {
  it('closes at once when it is idle and its pod is terminating', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.drain(true);
    expect(fixture.last.closing).toBe('finish');
    expect(fixture.changes.slice(2)).toEqual(['ready → draining', 'draining → closed']);
    await expectNothingLeft(fixture);
  });

  it('waits for its calls when its pod is terminating', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.drain(true);
    expect(fixture.state).toBe('draining');
    expect(fixture.last.closing).toBe('no');
    call.end();
    expect(fixture.last.closing).toBe('finish');
    await expectNothingLeft(fixture);
  });

  it('is kept for its return when its pod is not known to terminate, then closed in order', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.drain(false);
    await fixture.clock.advanceAsync(29_999);
    expect([fixture.state, fixture.last.isOpen]).toEqual(['draining', true]);
    await fixture.clock.advanceAsync(1);
    expect(fixture.last.closing).toBe('finish');
    await expectNothingLeft(fixture);
  });

  it('closes as soon as it is idle once its pod terminates', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.drain(false);
    await fixture.clock.advanceAsync(1_000);
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });

  it('still knows that its pod terminates when the endpoint then vanishes', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.drain(true);
    fixture.subchannel.drain(false);
    call.end();
    await expectNothingLeft(fixture);
  });

  it('cuts what still runs at the drain timeout', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.drain(false);
    await fixture.clock.advanceAsync(30_000);
    expect(fixture.last.closing).toBe('cut');
    call.end(outcomes.reset);
    await expectNothingLeft(fixture);
  });

  it('with a longer timeout: closes if idle after 30 s, while running calls may go on', async () => {
    const fixture = await readyFixture({ pool: { drainTimeoutMs: 100_000 } });
    const call = fixture.call();
    fixture.subchannel.drain(false);
    await fixture.clock.advanceAsync(99_999);
    expect(fixture.state).toBe('draining');
    await fixture.clock.advanceAsync(1);
    expect(fixture.last.closing).toBe('cut');
    call.end(outcomes.reset);
    await expectNothingLeft(fixture);
  });

  it('without a timeout: closes if idle after 30 s, while a call may take forever', async () => {
    const pool = { drainTimeoutMs: Number.POSITIVE_INFINITY };
    const idle = await readyFixture({ pool });
    idle.subchannel.drain(false);
    await idle.clock.advanceAsync(30_000);
    await expectNothingLeft(idle);
    const busy = await readyFixture({ pool });
    const call = busy.call();
    busy.subchannel.drain(false);
    await busy.clock.advanceAsync(3_600_000);
    expect(busy.state).toBe('draining');
    expect(busy.clock.timers).toBe(0);
    call.end();
    await expectNothingLeft(busy);
  });

  it('while connecting: aborts the attempt', async () => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'hang';
    await fixture.open();
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });

  it('in backoff: stops the timer', async () => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'refuse';
    await fixture.open();
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });

  it('while idle: closes', async () => {
    const fixture = new SubchannelFixture();
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });

  it('outlives the loss of its connection, so that its state is there when it returns', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.drain(false);
    fixture.last.end(new Error('reset'));
    await settle();
    expect(fixture.state).toBe('draining');
    expect(fixture.told.at(-1)).toBe('disconnected reset');
    await fixture.clock.advanceAsync(30_000);
    await expectNothingLeft(fixture);
  });

  it('lets calls on a leaving connection finish before it closes', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.drain(true);
    fixture.last.leave();
    await settle();
    expect(fixture.state).toBe('draining');
    call.end();
    await expectNothingLeft(fixture);
  });
});

describe('a subchannel that returns (T2)', () => {
  it('uses its connection, counters, load and trackers again', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.drain(false);
    await fixture.clock.advanceAsync(10_000);
    fixture.subchannel.revive();
    expect(fixture.state).toBe('ready');
    expect(fixture.fake.attempts).toHaveLength(1);
    expect(fixture.subchannel).toMatchObject({ inFlight: 1, started: 1 });
    expect(fixture.subchannel.load.value(fixture.clock.now())).toBe(2);
    expect(fixture.told).toEqual(['connected']);
    call.end();
    await fixture.clock.advanceAsync(60_000);
    expect(fixture.state).toBe('ready');
    expect(fixture.clock.timers).toBe(0);
  });

  it('is kept even if its pod was said to terminate: it is not closed at the end of the call', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.drain(true);
    fixture.subchannel.revive();
    call.end();
    expect(fixture.state).toBe('ready');
  });

  it('connects when it has no connection, at once, with its history of failures', async () => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'refuse';
    await fixture.open();
    await fixture.clock.advanceAsync(200);
    fixture.subchannel.drain(false);
    await fixture.clock.advanceAsync(1_000);
    fixture.subchannel.revive();
    await settle();
    expect(fixture.state).toBe('backoff');
    expect(fixture.clock.nextInMs).toBeCloseTo(512);
  });

  it('stays unchanged if it was not draining', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.revive();
    expect(fixture.changes).toHaveLength(2);
    fixture.subchannel.destroy();
    fixture.subchannel.revive();
    expect(fixture.state).toBe('closed');
    await expectNothingLeft(fixture);
  });
});

describe('the end of a subchannel', () => {
  it.each(['idle', 'connecting', 'ready', 'backoff', 'draining'] as const)(
    'by destroy in %s leaves nothing',
    async (state) => {
      const fixture = new SubchannelFixture({ pool: { maxConnectionAgeMs: AGE_MS } });
      if (state === 'connecting') fixture.behaviour = 'hang';
      if (state === 'backoff') fixture.behaviour = 'refuse';
      if (state !== 'idle') await fixture.open();
      const call = state === 'draining' ? fixture.call() : undefined;
      if (state === 'draining') fixture.subchannel.drain(false);
      expect(fixture.state).toBe(state);
      fixture.subchannel.destroy();
      fixture.subchannel.destroy();
      if (fixture.fake.connections.length > 0) expect(fixture.last.closing).toBe('cut');
      call?.end(outcomes.reset);
      await expectNothingLeft(fixture);
    },
  );

  it('is final: nothing starts it again', async () => {
    const fixture = await readyFixture();
    fixture.subchannel.destroy();
    fixture.subchannel.drain(false);
    fixture.subchannel.revive();
    fixture.subchannel.open();
    await fixture.clock.advanceAsync(120_000);
    expect(fixture.state).toBe('closed');
    expect(fixture.fake.attempts).toHaveLength(1);
    await expectNothingLeft(fixture);
  });

  it('still counts calls that end later, but notifies no stage of them', async () => {
    const fixture = await readyFixture();
    const call = fixture.call();
    fixture.subchannel.destroy();
    call.end(outcomes.reset);
    expect(fixture.subchannel).toMatchObject({ inFlight: 0, failed: 1 });
    await expectNothingLeft(fixture);
  });

  it('notifies no stage of a probe that is answered later', async () => {
    const told: string[] = [];
    const fixture: SubchannelFixture = await readyFixture({
      tracker: { probed: () => told.push('probed'), closed: () => fixture.told.push('closed') },
    });
    let answer = (): void => {};
    fixture.last.ping = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const ping = fixture.subchannel.ping(new AbortController().signal);
    fixture.subchannel.drain(true);
    answer();
    await ping;
    expect(told).toEqual([]);
    await expectNothingLeft(fixture);
  });

  it('closes a connection that a transport delivers too late', async () => {
    let deliver = (): void => {};
    const fixture = new SubchannelFixture({
      // Ignores its signal.
      transport: {
        connect: (endpoint) =>
          new Promise((resolve) => {
            deliver = () => resolve(fixture.fake.connect(endpoint, new AbortController().signal));
          }),
      },
    });
    await fixture.open();
    fixture.subchannel.drain(true);
    deliver();
    await settle();
    expect(fixture.last.closing).toBe('cut');
    await expectNothingLeft(fixture);
  });

  it('completes if a connection cannot be closed, and reports it once', async () => {
    const fixture = new SubchannelFixture({
      transport: {
        connect: async () => ({
          handle: undefined as never,
          capacity: 1,
          closed: new Promise(() => {}),
          close: () => {
            throw new Error('broken');
          },
        }),
      },
    });
    await fixture.open();
    fixture.subchannel.destroy();
    await expectNothingLeft(fixture);
    expect(fixture.warnings).toEqual(['a connection could not be closed']);
  });
});

describe('a connection that does not close though it was cut', () => {
  it('is abandoned after a while: nothing waits for it', async () => {
    const fixture = new SubchannelFixture({
      transport: {
        connect: async () => ({
          handle: undefined as never,
          capacity: 1,
          closed: new Promise(() => {}),
          close: () => new Promise<void>(() => {}),
        }),
      },
    });
    await fixture.open();
    fixture.subchannel.destroy();
    const closed = fixture.retiring.allClosed();
    expect(fixture.clock.referencedTimers).toBe(1);
    await fixture.clock.advanceAsync(5_000);
    await closed;
    await expectNothingLeft(fixture);
    expect(fixture.warnings).toEqual(['a connection did not close though it was cut']);
  });

  it('is abandoned also when it was cut later, at the drain timeout', async () => {
    const fixture = await readyFixture({ pool: { drainTimeoutMs: 1_000 } });
    fixture.last.close = () => new Promise<void>(() => {});
    fixture.last.leave();
    await settle();
    const closed = fixture.retiring.allClosed();
    await fixture.clock.advanceAsync(6_000);
    await closed;
    expect(fixture.warnings).toEqual(['a connection did not close though it was cut']);
  });
});
