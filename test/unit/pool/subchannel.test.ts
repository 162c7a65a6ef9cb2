import { describe, expect, it } from 'vitest';
import { isEvenkeelError } from '../../../src/errors.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { expectNothingLeft, readyHouse, SubchannelHouse } from '../../support/subchannel-house.js';

const AGE_MS = 60_000;

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
    [
      'delivers what is no connection',
      () => Promise.resolve({ handle: 1 }),
      'delivered no connection to 10.0.0.1:80, but one without capacity (a number), closed (a promise), close (a function)',
    ],
    [
      'delivers a connection of no capacity',
      () => Promise.resolve({ handle: 1, capacity: Number.NaN, closed: Promise.resolve(), close: async () => {} }),
      'but one without capacity (a number)',
    ],
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
    const house = await readyHouse();
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
    const house = await readyHouse();
    await house.clock.advanceAsync(999);
    house.last.end();
    await settle();
    expect(house.state).toBe('backoff');
    expect(house.subchannel.lastError?.message).toBe('it ended the connection after 999 ms');
    expect(house.told.at(-1)).toBe('disconnected cleanly');
    await house.clock.advanceAsync(200);
    expect(house.state).toBe('ready');
  });

  it('reconnects at once after a clean end of a young connection on which a call succeeded', async () => {
    const house = await readyHouse();
    house.call().end();
    house.last.end();
    await settle();
    expect(house.state).toBe('ready');
    expect(house.fake.connections).toHaveLength(2);
  });

  it('pauses after an error, however long the connection lived', async () => {
    const house = await readyHouse();
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
    const house = await readyHouse();
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
    const house = await readyHouse({ pool: { drainTimeoutMs: 10_000 } });
    const call = house.last.begin();
    house.last.leave();
    await house.clock.advanceAsync(9_999);
    expect(house.fake.connections[0]?.isOpen).toBe(true);
    await house.clock.advanceAsync(1);
    expect(await call.ended).toBe('cut');
  });

  it('is waited for without end where drainTimeoutMs is Infinity', async () => {
    const house = await readyHouse({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    house.last.begin();
    house.last.leave();
    await house.clock.advanceAsync(86_400_000);
    expect(house.fake.connections[0]?.isOpen).toBe(true);
    expect(house.clock.timers).toBe(0);
  });

  it('is replaced at once after a call succeeded on it, however young it is', async () => {
    const house = await readyHouse();
    for (let round = 0; round < 20; round++) {
      house.call().end();
      house.changes.length = 0;
      house.last.leave();
      await settle();
      expect(house.changes).toEqual(['ready → connecting', 'connecting → ready']);
      await house.clock.advanceAsync(10);
    }
    expect(house.subchannel.lastError).toBeUndefined();
    expect(house.troubles).toBe(0);
  });

  it('is replaced at once without a call on it, too, unless it was younger than the first pause', async () => {
    const house = await readyHouse();
    await house.clock.advanceAsync(200);
    house.last.leave();
    await settle();
    expect(house.state).toBe('ready');
    await house.clock.advanceAsync(199);
    house.last.leave();
    await settle();
    expect(house.state).toBe('idle');
    await house.clock.advanceAsync(200);
    expect(house.state).toBe('ready');
  });

  it.each([
    ['was cancelled', 'cancelled'],
    ['was refused', 'not-started'],
    ['failed', 'failure'],
  ] as const)(
    'means a growing pause when it comes straight after connecting and the only call on it %s',
    async (_, kind) => {
      const house = await readyHouse();
      const pauses: number[] = [];
      for (let round = 0; round < 8; round++) {
        house.call().end({ kind });
        house.last.leave();
        await settle();
        // Idle, since nothing failed: callers wait for it.
        expect(house.state).toBe('idle');
        expect(house.subchannel.lastError).toBeUndefined();
        pauses.push(Math.round(house.clock.nextInMs as number));
        await house.clock.advanceAsync(house.clock.nextInMs as number);
        expect(house.state).toBe('ready');
      }
      expect(pauses).toEqual([200, 320, 512, 819, 1311, 2097, 3000, 3000]);
      expect(house.told.at(-2)).toBe('disconnected cleanly');
      expect(house.troubles).toBe(8);
    },
  );

  it('ends such pauses once it was of use', async () => {
    const house = await readyHouse();
    for (let round = 0; round < 4; round++) {
      house.last.leave();
      await settle();
      await house.clock.advanceAsync(house.clock.nextInMs as number);
    }
    house.call().end();
    house.last.leave();
    await settle();
    expect(house.state).toBe('ready');
    house.last.leave();
    await settle();
    expect(house.clock.nextInMs).toBeCloseTo(200);
  });

  it.each(['drain', 'destroy'] as const)(
    'leaves no timer behind when its endpoint leaves in the pause (%s)',
    async (how) => {
      const house = await readyHouse();
      house.last.leave();
      await settle();
      expect(house.state).toBe('idle');
      if (how === 'drain') house.subchannel.drain(true);
      else house.subchannel.destroy();
      await settle();
      await expectNothingLeft(house);
    },
  );

  it('changes nothing by what it does later', async () => {
    const house = await readyHouse();
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
    const house: SubchannelHouse = await readyHouse({
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
