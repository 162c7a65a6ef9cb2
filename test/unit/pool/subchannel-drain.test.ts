import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { expectNothingLeft, readyHouse, SubchannelHouse } from '../../support/subchannel-house.js';

const AGE_MS = 60_000;

describe('a subchannel that drains (T1)', () => {
  it('closes at once when it is idle and its pod is terminating', async () => {
    const house = await readyHouse();
    house.subchannel.drain(true);
    expect(house.last.closing).toBe('finish');
    expect(house.changes.slice(2)).toEqual(['ready → draining', 'draining → closed']);
    await expectNothingLeft(house);
  });

  it('waits for its calls when its pod is terminating', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.drain(true);
    expect(house.state).toBe('draining');
    expect(house.last.closing).toBe('no');
    call.end();
    expect(house.last.closing).toBe('finish');
    await expectNothingLeft(house);
  });

  it('is kept for its return when its pod is not known to terminate, then closed in order', async () => {
    const house = await readyHouse();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(29_999);
    expect([house.state, house.last.isOpen]).toEqual(['draining', true]);
    await house.clock.advanceAsync(1);
    expect(house.last.closing).toBe('finish');
    await expectNothingLeft(house);
  });

  it('closes as soon as it is idle once its pod terminates', async () => {
    const house = await readyHouse();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(1_000);
    house.subchannel.drain(true);
    await expectNothingLeft(house);
  });

  it('still knows that its pod terminates when it then vanishes', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.drain(true);
    house.subchannel.drain(false);
    call.end();
    await expectNothingLeft(house);
  });

  it('cuts what still runs at the drain time-out', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(30_000);
    expect(house.last.closing).toBe('cut');
    call.end(outcomes.reset);
    await expectNothingLeft(house);
  });

  it('with a longer time-out: what is idle after 30 s goes, what runs may go on', async () => {
    const house = await readyHouse({ pool: { drainTimeoutMs: 100_000 } });
    const call = house.call();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(99_999);
    expect(house.state).toBe('draining');
    await house.clock.advanceAsync(1);
    expect(house.last.closing).toBe('cut');
    call.end(outcomes.reset);
    await expectNothingLeft(house);
  });

  it('with no time-out: what is idle after 30 s goes, a call may take for ever', async () => {
    const pool = { drainTimeoutMs: Number.POSITIVE_INFINITY };
    const idle = await readyHouse({ pool });
    idle.subchannel.drain(false);
    await idle.clock.advanceAsync(30_000);
    await expectNothingLeft(idle);
    const busy = await readyHouse({ pool });
    const call = busy.call();
    busy.subchannel.drain(false);
    await busy.clock.advanceAsync(3_600_000);
    expect(busy.state).toBe('draining');
    expect(busy.clock.timers).toBe(0);
    call.end();
    await expectNothingLeft(busy);
  });

  it('out of connecting: calls the attempt off', async () => {
    const house = new SubchannelHouse();
    house.behaviour = 'hang';
    await house.open();
    house.subchannel.drain(true);
    await expectNothingLeft(house);
  });

  it('out of backoff: stops the timer', async () => {
    const house = new SubchannelHouse();
    house.behaviour = 'refuse';
    await house.open();
    house.subchannel.drain(true);
    await expectNothingLeft(house);
  });

  it('out of idle', async () => {
    const house = new SubchannelHouse();
    house.subchannel.drain(true);
    await expectNothingLeft(house);
  });

  it('outlives the loss of its connection, so that what is known of it is there when it returns', async () => {
    const house = await readyHouse();
    house.subchannel.drain(false);
    house.last.end(new Error('reset'));
    await settle();
    expect(house.state).toBe('draining');
    expect(house.told.at(-1)).toBe('disconnected reset');
    await house.clock.advanceAsync(30_000);
    await expectNothingLeft(house);
  });

  it('lets calls on a leaving connection finish before it closes', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.drain(true);
    house.last.leave();
    await settle();
    expect(house.state).toBe('draining');
    call.end();
    await expectNothingLeft(house);
  });
});

describe('a subchannel that returns (T2)', () => {
  it('takes up its connection, counters, load and trackers', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(10_000);
    house.subchannel.revive();
    expect(house.state).toBe('ready');
    expect(house.fake.attempts).toHaveLength(1);
    expect(house.subchannel).toMatchObject({ inFlight: 1, started: 1 });
    expect(house.subchannel.load.value(house.clock.now())).toBe(2);
    expect(house.told).toEqual(['connected']);
    call.end();
    await house.clock.advanceAsync(60_000);
    expect(house.state).toBe('ready');
    expect(house.clock.timers).toBe(0);
  });

  it('also when its pod was said to terminate: it is not closed at the end of the call', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.drain(true);
    house.subchannel.revive();
    call.end();
    expect(house.state).toBe('ready');
  });

  it('connects when it has no connection, at once, with its history of failures', async () => {
    const house = new SubchannelHouse();
    house.behaviour = 'refuse';
    await house.open();
    await house.clock.advanceAsync(200);
    house.subchannel.drain(false);
    await house.clock.advanceAsync(1_000);
    house.subchannel.revive();
    await settle();
    expect(house.state).toBe('backoff');
    expect(house.clock.nextInMs).toBeCloseTo(512);
  });

  it('does nothing to one that does not drain', async () => {
    const house = await readyHouse();
    house.subchannel.revive();
    expect(house.changes).toHaveLength(2);
    house.subchannel.destroy();
    house.subchannel.revive();
    expect(house.state).toBe('closed');
    await expectNothingLeft(house);
  });
});

describe('the end of a subchannel', () => {
  it.each(['idle', 'connecting', 'ready', 'backoff', 'draining'] as const)(
    'destroy in %s leaves nothing',
    async (state) => {
      const house = new SubchannelHouse({ pool: { maxConnectionAgeMs: AGE_MS } });
      if (state === 'connecting') house.behaviour = 'hang';
      if (state === 'backoff') house.behaviour = 'refuse';
      if (state !== 'idle') await house.open();
      const call = state === 'draining' ? house.call() : undefined;
      if (state === 'draining') house.subchannel.drain(false);
      expect(house.state).toBe(state);
      house.subchannel.destroy();
      house.subchannel.destroy();
      if (house.fake.connections.length > 0) expect(house.last.closing).toBe('cut');
      call?.end(outcomes.reset);
      await expectNothingLeft(house);
    },
  );

  it('is final: nothing wakes it', async () => {
    const house = await readyHouse();
    house.subchannel.destroy();
    house.subchannel.drain(false);
    house.subchannel.revive();
    house.subchannel.open();
    await house.clock.advanceAsync(120_000);
    expect(house.state).toBe('closed');
    expect(house.fake.attempts).toHaveLength(1);
    await expectNothingLeft(house);
  });

  it('calls that end after it are counted, and no stage hears of them', async () => {
    const house = await readyHouse();
    const call = house.call();
    house.subchannel.destroy();
    call.end(outcomes.reset);
    expect(house.subchannel).toMatchObject({ inFlight: 0, failed: 1 });
    await expectNothingLeft(house);
  });

  it('takes what a transport delivers too late and closes it', async () => {
    let deliver = (): void => {};
    const house = new SubchannelHouse({
      // Ignores its signal.
      transport: {
        connect: (endpoint) =>
          new Promise((resolve) => {
            deliver = () => resolve(house.fake.connect(endpoint, new AbortController().signal));
          }),
      },
    });
    await house.open();
    house.subchannel.drain(true);
    deliver();
    await settle();
    expect(house.last.closing).toBe('cut');
    await expectNothingLeft(house);
  });

  it('survives a connection that cannot be closed, and says so once', async () => {
    const house = new SubchannelHouse({
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
    await house.open();
    house.subchannel.destroy();
    await expectNothingLeft(house);
    expect(house.warnings).toEqual(['a connection could not be closed']);
  });
});

describe('a connection that does not close though it was cut', () => {
  it('is given up after a while: it holds nobody up', async () => {
    const house = new SubchannelHouse({
      transport: {
        connect: async () => ({
          handle: undefined as never,
          capacity: 1,
          closed: new Promise(() => {}),
          close: () => new Promise<void>(() => {}),
        }),
      },
    });
    await house.open();
    house.subchannel.destroy();
    const closed = house.retiring.allClosed();
    expect(house.clock.referencedTimers).toBe(1);
    await house.clock.advanceAsync(5_000);
    await closed;
    await expectNothingLeft(house);
    expect(house.warnings).toEqual(['a connection did not close though it was cut']);
  });

  it('also when it was cut later, at the drain time-out', async () => {
    const house = await readyHouse({ pool: { drainTimeoutMs: 1_000 } });
    house.last.close = () => new Promise<void>(() => {});
    house.last.leave();
    await settle();
    const closed = house.retiring.allClosed();
    await house.clock.advanceAsync(6_000);
    await closed;
    expect(house.warnings).toEqual(['a connection did not close though it was cut']);
  });
});
