import { describe, expect, it } from 'vitest';
import { Attributes } from '../../../src/endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../../../src/endpoint/connection-age.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { isEvenkeelError } from '../../../src/errors.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { slotsOf, subchannel, WatchedSlots } from '../../support/pick-set.js';
import { SubchannelHouse, type SubchannelHouseOptions } from '../../support/subchannel-house.js';

const AGE_MS = 60_000;

/** A house whose subchannel is ready. */
async function ready(options: SubchannelHouseOptions = {}): Promise<SubchannelHouse> {
  const house = new SubchannelHouse(options);
  await house.open();
  expect(house.state).toBe('ready');
  return house;
}

/** Nothing is left of it: no timer, no connection, no attempt. */
async function expectNothingLeft(house: SubchannelHouse): Promise<void> {
  await house.retiring.allClosed();
  await settle();
  expect(house.state).toBe('closed');
  expect(house.closed).toBe(1);
  expect(house.clock.timers).toBe(0);
  expect(house.fake.open()).toHaveLength(0);
  expect(house.fake.hanging).toBe(0);
  expect(house.told.at(-1)).toBe('closed');
}

describe('a subchannel that connects', () => {
  it('idle → connecting → ready', async () => {
    const house = new SubchannelHouse();
    expect(house.state).toBe('idle');
    await house.open();
    expect(house.changes).toEqual(['idle → connecting', 'connecting → ready']);
    expect(house.told).toEqual(['connected']);
    expect(house.rebuilds).toBe(1);
    expect(house.subchannel.connection).toBe(house.last);
    expect(house.clock.timers).toBe(0);
  });

  it('→ backoff when it is refused, with growing pauses up to the longest, and asks the resolver to look', async () => {
    const house = new SubchannelHouse();
    house.behaviour = 'refuse';
    await house.open();
    const pauses: number[] = [];
    for (let failure = 0; failure < 9; failure++) {
      expect(house.state).toBe('backoff');
      pauses.push(Math.round(house.clock.nextInMs as number));
      await house.clock.advanceAsync(house.clock.nextInMs as number);
    }
    expect(pauses).toEqual([200, 320, 512, 819, 1311, 2097, 3000, 3000, 3000]);
    expect(house.troubles).toBe(10);
    expect(house.subchannel.lastError).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_CONNECT'));
    expect(String(house.subchannel.lastError)).toContain('10.0.0.1:80');
    expect(house.told[0]).toContain('disconnected no connection to 10.0.0.1:80');
  });

  it('→ ready out of backoff, and the last error is forgotten', async () => {
    const house = new SubchannelHouse();
    house.behaviour = 'refuse';
    await house.open();
    house.behaviour = 'accept';
    await house.clock.advanceAsync(200);
    expect(house.state).toBe('ready');
    expect(house.subchannel.lastError).toBeUndefined();
    expect(house.told.at(-1)).toBe('connected');
  });

  it('→ backoff when nothing happens within connectTimeoutMs, and calls the attempt off', async () => {
    const house = new SubchannelHouse({ pool: { connectTimeoutMs: 700 } });
    house.behaviour = 'hang';
    await house.open();
    await house.clock.advanceAsync(699);
    expect(house.state).toBe('connecting');
    await house.clock.advanceAsync(1);
    expect(house.state).toBe('backoff');
    expect(house.fake.hanging).toBe(0);
    expect(String(house.subchannel.lastError)).toContain('within 700 ms');
  });

  it('a time-out that is late because our own event loop stood still gives way to what came in meanwhile', async () => {
    let accept = (): void => {};
    const house = new SubchannelHouse({
      transport: {
        connect: (endpoint, signal) =>
          new Promise((resolve) => {
            accept = () => resolve(house.fake.connect(endpoint, signal));
          }),
      },
    });
    await house.open();
    await house.clock.stall(5_000);
    expect(house.state).toBe('connecting');
    accept();
    await settle();
    expect(house.state).toBe('ready');
  });

  it('and times out after the stall all the same if nothing comes', async () => {
    const house = new SubchannelHouse();
    house.behaviour = 'hang';
    await house.open();
    await house.clock.stall(5_000);
    await house.clock.advanceAsync(100);
    expect(house.state).toBe('backoff');
  });

  it.each([
    [
      'throws instead of rejecting',
      () => {
        throw new Error('at once');
      },
      'at once',
    ],
    ['rejects with something that is no Error', () => Promise.reject('words'), 'words'],
    ['delivers nothing', () => Promise.resolve(undefined), 'delivered no connection to 10.0.0.1:80, but undefined'],
    ['delivers what is no connection', () => Promise.resolve({ handle: 1 }), 'delivered no connection'],
    ['returns no promise', () => 5, 'delivered no connection to 10.0.0.1:80, but 5'],
  ])('→ backoff when the transport %s', async (_, connect, message) => {
    const house = new SubchannelHouse({ transport: { connect: connect as never } });
    await house.open();
    expect(house.state).toBe('backoff');
    expect(house.subchannel.lastError?.message).toContain(message);
  });
});

describe('a subchannel that loses its connection', () => {
  it('reconnects at once after a clean end of a connection that was of use', async () => {
    const house = await ready();
    await house.clock.advanceAsync(1_000);
    house.changes.length = 0;
    house.last.end();
    await settle();
    expect(house.changes).toEqual(['ready → connecting', 'connecting → ready']);
    expect(house.told).toEqual(['connected', 'disconnected cleanly', 'connected']);
    expect(house.fake.connections).toHaveLength(2);
    expect(house.troubles).toBe(0);
  });

  it('pauses after a clean end of a young connection: a server that closes at once is no hot loop', async () => {
    const house = await ready();
    await house.clock.advanceAsync(999);
    house.last.end();
    await settle();
    expect(house.state).toBe('backoff');
    expect(house.subchannel.lastError?.message).toBe('it ended the connection after 999 ms');
    expect(house.told.at(-1)).toBe('disconnected cleanly');
    await house.clock.advanceAsync(200);
    expect(house.state).toBe('ready');
  });

  it('pauses after an error, however long the connection lived', async () => {
    const house = await ready();
    await house.clock.advanceAsync(3_600_000);
    house.last.end(new Error('reset'));
    await settle();
    expect(house.state).toBe('backoff');
    expect(house.subchannel.lastError?.message).toBe('reset');
    expect(house.told.at(-1)).toBe('disconnected reset');
    expect(house.troubles).toBe(1);
    expect(house.clock.nextInMs).toBeCloseTo(200);
  });

  it.each(['end', 'leave'] as const)('forgets earlier failures once a connection was of use (%s)', async (how) => {
    const house = new SubchannelHouse();
    house.behaviour = 'refuse';
    await house.open();
    await house.clock.advanceAsync(5_000);
    house.behaviour = 'accept';
    await house.clock.advanceAsync(3_000);
    expect(house.state).toBe('ready');
    await house.clock.advanceAsync(3_000);
    house.behaviour = 'refuse';
    house.last[how]();
    await settle();
    expect(house.clock.nextInMs).toBeCloseTo(200);
  });

  it('takes a `closed` that rejects against its contract for an end with that error', async () => {
    const house = new SubchannelHouse({
      transport: {
        connect: async () => ({
          handle: undefined as never,
          capacity: 1,
          closed: Promise.reject(new Error('odd')),
          close: async () => {},
        }),
      },
    });
    await house.open();
    expect(house.state).toBe('backoff');
    expect(house.subchannel.lastError?.message).toBe('odd');
  });

  it('takes a `leaving` that rejects against its contract for leaving', async () => {
    let calls = 0;
    const house = new SubchannelHouse({
      transport: {
        connect: async () => {
          calls++;
          const leaving = calls === 1 ? Promise.reject(new Error('odd')) : undefined;
          return {
            handle: undefined as never,
            capacity: 1,
            closed: new Promise(() => {}),
            close: async () => {},
            ...(leaving && { leaving }),
          };
        },
      },
    });
    await house.open();
    await house.clock.advanceAsync(200);
    expect(calls).toBe(2);
    expect(house.state).toBe('ready');
  });
});

describe('a connection the other side wants to end', () => {
  it('gets no new call, finishes what runs, and another is opened at once', async () => {
    const house = await ready();
    await house.clock.advanceAsync(1_000);
    const old = house.last;
    const call = old.begin();
    old.leave();
    await settle();
    expect(house.subchannel.connection).toBe(house.last);
    expect(house.last).not.toBe(old);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    expect(house.told).toEqual(['connected', 'disconnected cleanly', 'connected']);
    call.finish();
    expect(await call.ended).toBe('finished');
    expect(old.isOpen).toBe(false);
  });

  it('is cut if its calls outlast the drain time-out', async () => {
    const house = await ready({ pool: { drainTimeoutMs: 10_000 } });
    const call = house.last.begin();
    house.last.leave();
    await house.clock.advanceAsync(9_999);
    expect(house.fake.connections[0]?.isOpen).toBe(true);
    await house.clock.advanceAsync(1);
    expect(await call.ended).toBe('cut');
  });

  it('is waited for without end where drainTimeoutMs is Infinity', async () => {
    const house = await ready({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    house.last.begin();
    house.last.leave();
    await house.clock.advanceAsync(86_400_000);
    expect(house.fake.connections[0]?.isOpen).toBe(true);
    expect(house.clock.timers).toBe(0);
  });

  it('means a pause when it comes straight after connecting', async () => {
    const house = await ready();
    house.last.leave();
    await settle();
    expect(house.state).toBe('backoff');
    expect(house.told.at(-1)).toBe('disconnected cleanly');
  });

  it('changes nothing by what it does later', async () => {
    const house = await ready();
    await house.clock.advanceAsync(1_000);
    const old = house.last;
    old.begin();
    old.leave();
    await settle();
    house.changes.length = 0;
    old.end(new Error('late'));
    old.leave();
    await settle();
    expect(house.changes).toEqual([]);
    expect(house.state).toBe('ready');
    expect(house.subchannel.lastError).toBeUndefined();
  });
});

describe('the maximum age', () => {
  const aging = { pool: { maxConnectionAgeMs: AGE_MS } };

  it('opens the replacement first, then lets the old connection finish', async () => {
    const house = await ready(aging);
    const old = house.last;
    const call = old.begin();
    house.changes.length = 0;
    await house.clock.advanceAsync(AGE_MS);
    expect(house.fake.connections).toHaveLength(2);
    expect(house.subchannel.connection).toBe(house.last);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    expect(house.changes).toEqual([]);
    call.finish();
    await settle();
    expect(old.isOpen).toBe(false);
    expect(house.clock.nextInMs).toBe(AGE_MS);
  });

  it('keeps the old connection when the replacement fails, and tries again after another age', async () => {
    const house = await ready(aging);
    house.behaviour = 'refuse';
    await house.clock.advanceAsync(AGE_MS);
    expect(house.state).toBe('ready');
    expect(house.fake.open()).toEqual([house.subchannel.connection]);
    house.behaviour = 'accept';
    await house.clock.advanceAsync(AGE_MS);
    expect(house.fake.connections).toHaveLength(2);
  });

  it('calls the replacement off when the old connection is lost meanwhile', async () => {
    const house = await ready(aging);
    house.behaviour = 'hang';
    await house.clock.advanceAsync(AGE_MS);
    expect(house.fake.hanging).toBe(1);
    house.behaviour = 'accept';
    house.last.end();
    await settle();
    expect(house.fake.hanging).toBe(0);
    expect(house.state).toBe('ready');
    expect(house.fake.open()).toHaveLength(1);
  });

  it('ignores late events of the replaced connection', async () => {
    const house = await ready(aging);
    const old = house.last;
    old.begin();
    await house.clock.advanceAsync(AGE_MS);
    house.changes.length = 0;
    old.end(new Error('late'));
    old.leave();
    await settle();
    expect(house.changes).toEqual([]);
    expect(house.told).toEqual(['connected']);
  });

  it('goes on counting while the endpoint drains: flapping makes no connection older than it may be', async () => {
    const house = await ready(aging);
    for (let flap = 0; flap < 5; flap++) {
      await house.clock.advanceAsync(10_000);
      house.subchannel.drain(false);
      await house.clock.advanceAsync(1_000);
      house.subchannel.revive();
    }
    expect(house.fake.connections).toHaveLength(1);
    await house.clock.advanceAsync(AGE_MS - 55_000);
    expect(house.fake.connections).toHaveLength(2);
  });

  it('may be shorter for one endpoint', async () => {
    const attributes = Attributes.empty.with(endpointConnectionAgeMs, 5_000);
    const house = await ready({ ...aging, endpoint: { attributes } });
    await house.clock.advanceAsync(5_000);
    expect(house.fake.connections).toHaveLength(2);
  });
});

describe('a subchannel that drains (T1)', () => {
  it('closes at once when it is idle and its pod is terminating', async () => {
    const house = await ready();
    house.subchannel.drain(true);
    expect(house.last.closing).toBe('finish');
    expect(house.changes.slice(2)).toEqual(['ready → draining', 'draining → closed']);
    await expectNothingLeft(house);
  });

  it('waits for its calls when its pod is terminating', async () => {
    const house = await ready();
    const call = house.call();
    house.subchannel.drain(true);
    expect(house.state).toBe('draining');
    expect(house.last.closing).toBe('no');
    call.end();
    expect(house.last.closing).toBe('finish');
    await expectNothingLeft(house);
  });

  it('is kept for its return when its pod is not known to terminate, then closed in order', async () => {
    const house = await ready();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(29_999);
    expect([house.state, house.last.isOpen]).toEqual(['draining', true]);
    await house.clock.advanceAsync(1);
    expect(house.last.closing).toBe('finish');
    await expectNothingLeft(house);
  });

  it('closes as soon as it is idle once its pod terminates', async () => {
    const house = await ready();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(1_000);
    house.subchannel.drain(true);
    await expectNothingLeft(house);
  });

  it('still knows that its pod terminates when it then vanishes', async () => {
    const house = await ready();
    const call = house.call();
    house.subchannel.drain(true);
    house.subchannel.drain(false);
    call.end();
    await expectNothingLeft(house);
  });

  it('cuts what still runs at the drain time-out', async () => {
    const house = await ready();
    const call = house.call();
    house.subchannel.drain(false);
    await house.clock.advanceAsync(30_000);
    expect(house.last.closing).toBe('cut');
    call.end(outcomes.reset);
    await expectNothingLeft(house);
  });

  it('with a longer time-out: what is idle after 30 s goes, what runs may go on', async () => {
    const house = await ready({ pool: { drainTimeoutMs: 100_000 } });
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
    const idle = await ready({ pool });
    idle.subchannel.drain(false);
    await idle.clock.advanceAsync(30_000);
    await expectNothingLeft(idle);
    const busy = await ready({ pool });
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
    const house = await ready();
    house.subchannel.drain(false);
    house.last.end(new Error('reset'));
    await settle();
    expect(house.state).toBe('draining');
    expect(house.told.at(-1)).toBe('disconnected reset');
    await house.clock.advanceAsync(30_000);
    await expectNothingLeft(house);
  });

  it('lets calls on a leaving connection finish before it closes', async () => {
    const house = await ready();
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
    const house = await ready();
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
    const house = await ready();
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
    const house = await ready();
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
    const house = await ready();
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
    const house = await ready();
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
    const house = await ready({ pool: { drainTimeoutMs: 1_000 } });
    house.last.close = () => new Promise<void>(() => {});
    house.last.leave();
    await settle();
    const closed = house.retiring.allClosed();
    await house.clock.advanceAsync(6_000);
    await closed;
    expect(house.warnings).toEqual(['a connection did not close though it was cut']);
  });
});

describe('what a subchannel counts', () => {
  it('counts calls begun, running and failed, also those that found no connection', async () => {
    const house = await ready();
    for (const outcome of Object.values(outcomes)) house.call().end(outcome);
    house.call();
    expect(house.subchannel).toMatchObject({ started: 10, inFlight: 1, failed: 6 });
  });

  it('tells trackers how long the call lasted, and the load how long the endpoint took', async () => {
    const measured: number[] = [];
    const load = {
      decays: false,
      start: () => {},
      end: (from: number, to: number) => measured.push(to - from),
      value: () => 1,
    };
    const house = await ready({ load });
    const startedMs = house.clock.now();
    house.subchannel.start(startedMs);
    house.clock.advance(500);
    house.subchannel.end(startedMs, house.clock.now(), outcomes.success, house.clock.now() - 20);
    expect(house.told).toEqual(['connected', 'completed success 500']);
    expect(measured).toEqual([20]);
  });

  it('tells trackers of no success they would ignore, and of all else', async () => {
    const told: string[] = [];
    const tracker = {
      ignoresSuccess: false,
      connected: () => told.push('connected'),
      completed: ({ kind }: Outcome) => {
        told.push(kind);
        tracker.ignoresSuccess = told.length >= 3;
      },
    };
    const house = await ready({ tracker });
    for (let call = 0; call < 4; call++) house.call().end();
    house.call().end(outcomes.status);
    house.call().end();
    expect(told).toEqual(['connected', 'success', 'success', 'failure']);
    house.last.end(new Error('reset'));
    await house.clock.advanceAsync(200);
    house.call().end();
    expect(told.slice(4)).toEqual(['connected', 'success']);
  });

  it('tells trackers of a time-out how many calls began since it was last heard of, by whatever end', async () => {
    const ends = [outcomes.success, outcomes.status, outcomes.reset, outcomes.cancelled, outcomes.overload];
    for (const ignoresSuccess of [false, true]) {
      for (const outcome of ends) {
        const unanswered: number[] = [];
        const completed = (_outcome: Outcome, _latencyMs: number, count: number) => unanswered.push(count);
        const house = await ready({ tracker: { completed, ignoresSuccess } });
        // The first is heard of by everyone.
        house.call().end();
        house.call().end(outcome);
        const calls = Array.from({ length: 7 }, () => house.call());
        house.clock.advance(1_000);
        calls[0]?.end(outcomes.timeout);
        expect(unanswered.at(-1)).toBe(7);
        calls[1]?.end(outcome);
        calls[2]?.end(outcomes.timeout);
        expect(unanswered.at(-1)).toBe(1);
      }
    }
  });

  it('has no capacity without a connection, and what the connection says with one', async () => {
    const house = new SubchannelHouse();
    expect(house.subchannel.capacity).toBe(0);
    await house.open();
    house.last.capacity = 7;
    expect(house.subchannel.capacity).toBe(7);
  });

  it('asks its connection for its capacity on every pick, or is told when it changes', () => {
    const asked = subchannel(0);
    slotsOf(asked).capacity = 1;
    asked.start(0);
    expect(asked.hasRoom).toBe(false);
    slotsOf(asked).capacity = 2;
    expect(asked.hasRoom).toBe(true);

    const told = subchannel(1);
    const slots = new WatchedSlots();
    told.connection = slots;
    told.start(0);
    expect(told.hasRoom).toBe(true);
    slots.setCapacity(1);
    expect(told.hasRoom).toBe(false);
    slots.setCapacity(2);
    expect(told.hasRoom).toBe(true);
    told.setTrial(1);
    told.start(0);
    expect(told.hasRoom).toBe(false);
    told.setTrial(undefined);
    slots.setCapacity(3);
    expect(told.hasRoom).toBe(true);
  });

  it('no longer listens to the capacity of a connection that was replaced', () => {
    const one = subchannel(1);
    const old = new WatchedSlots();
    one.connection = old;
    one.connection = new WatchedSlots();
    old.setCapacity(0);
    expect(one.hasRoom).toBe(true);
    one.connection = undefined;
    expect(one.hasRoom).toBe(false);
  });

  it('tells trackers with the next call how many successes they ignored', async () => {
    const unheard: number[] = [];
    const completed = (_outcome: Outcome, _ms: number, _unanswered: number, count: number) => unheard.push(count);
    const house = await ready({ tracker: { completed, ignoresSuccess: true } });
    const running = house.call();
    for (let call = 0; call < 8; call++) house.call().end();
    house.call().end(outcomes.status);
    house.call().end();
    house.call().end(outcomes.cancelled);
    running.end(outcomes.reset);
    expect(unheard).toEqual([0, 7, 1, 0]);
  });

  it('counts the calls that a load of calls in flight would count', async () => {
    const house = await ready({ load: inFlight()() });
    const first = house.call();
    house.call();
    expect([house.subchannel.cost(0), house.subchannel.load.value(0)]).toEqual([3, 3]);
    first.end();
    expect([house.subchannel.cost(0), house.subchannel.load.value(0)]).toEqual([2, 2]);
  });

  it('survives a load and a tracker that throw, and says so', async () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    const house = new SubchannelHouse({
      load: { decays: false, start: broken, end: broken, value: () => 1 },
      tracker: { connected: broken, disconnected: broken, completed: broken, closed: broken },
    });
    await house.open();
    house.call().end();
    expect(house.subchannel).toMatchObject({ started: 1, inFlight: 0 });
    house.last.end(new Error('reset'));
    await house.clock.advanceAsync(200);
    expect(house.state).toBe('ready');
    house.subchannel.destroy();
    expect(house.state).toBe('closed');
    expect(new Set(house.warnings)).toEqual(new Set(['a load threw', 'the tracker of a stage threw']));
    expect(house.warnings).toHaveLength(2);
  });

  it('pings its connection, and rejects without one', async () => {
    const house = new SubchannelHouse();
    const { signal } = new AbortController();
    await expect(house.subchannel.ping(signal)).rejects.toThrow('10.0.0.1:80 has no connection');
    await house.open();
    await house.subchannel.ping(signal);
    house.last.pingError = new Error('no answer');
    await expect(house.subchannel.ping(signal)).rejects.toThrow('no answer');
  });

  it('U8: new data of the endpoint touch nothing else', async () => {
    const house = await ready();
    house.subchannel.endpoint = createEndpoint({ address: '10.0.0.1', port: 80, zone: 'b', weight: 3 });
    await house.clock.advanceAsync(60_000);
    expect(house.fake.attempts).toHaveLength(1);
  });
});

describe('observers that call back in', () => {
  it.each(['connecting', 'ready', 'backoff', 'draining'] as const)(
    'may end it while they hear of %s',
    async (moment) => {
      const house: SubchannelHouse = new SubchannelHouse({
        pool: { maxConnectionAgeMs: AGE_MS },
        observer: {
          subchannelChanged: ({ to }) => {
            if (to === moment) house.subchannel.destroy();
          },
        },
      });
      if (moment === 'backoff') house.behaviour = 'refuse';
      await house.open();
      if (moment === 'draining') house.subchannel.drain(false);
      await settle();
      expect(house.clock.timers).toBe(0);
      await house.clock.advanceAsync(120_000);
      await expectNothingLeft(house);
    },
  );

  it('may drain it while they hear of ready: it is not told to be connected', async () => {
    const house: SubchannelHouse = new SubchannelHouse({
      observer: {
        subchannelChanged: ({ to }) => {
          if (to === 'ready') house.subchannel.drain(true);
        },
      },
    });
    await house.open();
    expect(house.told).toEqual(['closed']);
    await expectNothingLeft(house);
  });

  it('may end its last call while they hear of draining', async () => {
    let call: ReturnType<SubchannelHouse['call']> | undefined;
    const house: SubchannelHouse = await ready({
      observer: {
        subchannelChanged: ({ to }) => {
          if (to === 'draining') call?.end();
        },
      },
    });
    call = house.call();
    house.subchannel.drain(true);
    await expectNothingLeft(house);
  });
});
