import { describe, expect, it } from 'vitest';
import { perEndpointError } from '../../../src/credentials/per-endpoint.js';
import { isEvenkeelError } from '../../../src/errors.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { expectNothingLeft, readyFixture, SubchannelFixture } from '../../support/fixtures/subchannel-fixture.js';

const AGE_MS = 60_000;

describe('a subchannel that connects', () => {
  it('idle → connecting → ready', async () => {
    const fixture = new SubchannelFixture();
    expect(fixture.state).toBe('idle');
    await fixture.open();
    expect(fixture.changes).toEqual(['idle → connecting', 'connecting → ready']);
    expect(fixture.told).toEqual(['connected']);
    expect(fixture.rebuilds).toBe(1);
    expect(fixture.subchannel.connection).toBe(fixture.last);
    expect(fixture.clock.timers).toBe(0);
  });

  it('→ backoff when it is refused, with growing pauses up to the longest, and asks the resolver to look again', async () => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'refuse';
    await fixture.open();
    const pauses: number[] = [];
    for (let failure = 0; failure < 9; failure++) {
      expect(fixture.state).toBe('backoff');
      pauses.push(Math.round(fixture.clock.nextInMs as number));
      await fixture.clock.advanceAsync(fixture.clock.nextInMs as number);
    }
    expect(pauses).toEqual([200, 320, 512, 819, 1311, 2097, 3000, 3000, 3000]);
    expect(fixture.troubles).toBe(10);
    expect(fixture.subchannel.lastError).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_CONNECT'));
    expect(String(fixture.subchannel.lastError)).toContain('10.0.0.1:80');
    expect(fixture.told[0]).toContain('disconnected no connection to 10.0.0.1:80');
  });

  it('→ backoff without growing pauses and without another lookup when a function of ours fails', async () => {
    const fixture = new SubchannelFixture({
      transport: { connect: (endpoint) => Promise.reject(perEndpointError('tls', endpoint, 'failed: no token')) },
    });
    await fixture.open();
    const pauses: number[] = [];
    for (let failure = 0; failure < 5; failure++) {
      expect(fixture.state).toBe('backoff');
      pauses.push(Math.round(fixture.clock.nextInMs as number));
      await fixture.clock.advanceAsync(fixture.clock.nextInMs as number);
    }
    expect(pauses).toEqual([200, 200, 200, 200, 200]);
    expect(fixture.troubles).toBe(0);
    expect(new Set(fixture.told)).toEqual(new Set(['disconnected cleanly']));
    expect(String(fixture.subchannel.lastError)).toContain('no token');
  });

  it('→ ready out of backoff, and the last error is forgotten', async () => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'refuse';
    await fixture.open();
    fixture.behaviour = 'accept';
    await fixture.clock.advanceAsync(200);
    expect(fixture.state).toBe('ready');
    expect(fixture.subchannel.lastError).toBeUndefined();
    expect(fixture.told.at(-1)).toBe('connected');
  });

  it('→ backoff when nothing happens within connectTimeoutMs, and aborts the attempt', async () => {
    const fixture = new SubchannelFixture({ pool: { connectTimeoutMs: 700 } });
    fixture.behaviour = 'hang';
    await fixture.open();
    await fixture.clock.advanceAsync(699);
    expect(fixture.state).toBe('connecting');
    await fixture.clock.advanceAsync(1);
    expect(fixture.state).toBe('backoff');
    expect(fixture.fake.hanging).toBe(0);
    expect(String(fixture.subchannel.lastError)).toContain('within 700 ms');
  });

  it('a timeout that is late because our own event loop was blocked is ignored if there was input meanwhile', async () => {
    let accept = (): void => {};
    const fixture = new SubchannelFixture({
      transport: {
        connect: (endpoint, signal) =>
          new Promise((resolve) => {
            accept = () => resolve(fixture.fake.connect(endpoint, signal));
          }),
      },
    });
    await fixture.open();
    await fixture.clock.stall(5_000);
    expect(fixture.state).toBe('connecting');
    accept();
    await settle();
    expect(fixture.state).toBe('ready');
  });

  it('a timeout after a blocked event loop counts if there was no input', async () => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'hang';
    await fixture.open();
    await fixture.clock.stall(5_000);
    await fixture.clock.advanceAsync(249);
    expect(fixture.state).toBe('connecting');
    await fixture.clock.advanceAsync(1);
    expect(fixture.state).toBe('backoff');
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
    const fixture = new SubchannelFixture({ transport: { connect: connect as never } });
    await fixture.open();
    expect(fixture.state).toBe('backoff');
    expect(fixture.subchannel.lastError?.message).toContain(message);
  });
});

describe('a subchannel that loses its connection', () => {
  it('reconnects at once after a clean end of a connection that had been useful', async () => {
    const fixture = await readyFixture();
    await fixture.clock.advanceAsync(1_000);
    fixture.changes.length = 0;
    fixture.last.end();
    await settle();
    expect(fixture.changes).toEqual(['ready → connecting', 'connecting → ready']);
    expect(fixture.told).toEqual(['connected', 'disconnected cleanly', 'connected']);
    expect(fixture.fake.connections).toHaveLength(2);
    expect(fixture.troubles).toBe(0);
  });

  it('pauses after a clean end of a young connection: a server that closes at once causes no hot loop', async () => {
    const fixture = await readyFixture();
    await fixture.clock.advanceAsync(999);
    fixture.last.end();
    await settle();
    expect(fixture.state).toBe('backoff');
    expect(fixture.subchannel.lastError?.message).toBe('it ended the connection after 999 ms');
    expect(fixture.told.at(-1)).toBe('disconnected cleanly');
    await fixture.clock.advanceAsync(200);
    expect(fixture.state).toBe('ready');
  });

  it('reconnects at once after a clean end of a young connection on which a call succeeded', async () => {
    const fixture = await readyFixture();
    fixture.call().end();
    fixture.last.end();
    await settle();
    expect(fixture.state).toBe('ready');
    expect(fixture.fake.connections).toHaveLength(2);
  });

  it('pauses after an error, however long the connection lived', async () => {
    const fixture = await readyFixture();
    await fixture.clock.advanceAsync(3_600_000);
    fixture.last.end(new Error('reset'));
    await settle();
    expect(fixture.state).toBe('backoff');
    expect(fixture.subchannel.lastError?.message).toBe('reset');
    expect(fixture.told.at(-1)).toBe('disconnected reset');
    expect(fixture.troubles).toBe(1);
    expect(fixture.clock.nextInMs).toBeCloseTo(200);
  });

  it.each(['end', 'leave'] as const)('forgets earlier failures once a connection was useful (%s)', async (how) => {
    const fixture = new SubchannelFixture();
    fixture.behaviour = 'refuse';
    await fixture.open();
    await fixture.clock.advanceAsync(5_000);
    fixture.behaviour = 'accept';
    await fixture.clock.advanceAsync(3_000);
    expect(fixture.state).toBe('ready');
    await fixture.clock.advanceAsync(3_000);
    fixture.behaviour = 'refuse';
    fixture.last[how]();
    await settle();
    expect(fixture.clock.nextInMs).toBeCloseTo(200);
  });

  it('treats a `closed` that rejects, against its contract, as an end with that error', async () => {
    const fixture = new SubchannelFixture({
      transport: {
        connect: async () => ({
          handle: undefined as never,
          capacity: 1,
          closed: Promise.reject(new Error('odd')),
          close: async () => {},
        }),
      },
    });
    await fixture.open();
    expect(fixture.state).toBe('backoff');
    expect(fixture.subchannel.lastError?.message).toBe('odd');
  });

  it('treats a `leaving` that rejects, against its contract, as leaving', async () => {
    let calls = 0;
    const fixture = new SubchannelFixture({
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
    await fixture.open();
    await fixture.clock.advanceAsync(200);
    expect(calls).toBe(2);
    expect(fixture.state).toBe('ready');
  });
});

describe('a connection that the other side wants to end', () => {
  it('gets no new call, finishes its running calls, and another is opened at once', async () => {
    const fixture = await readyFixture();
    await fixture.clock.advanceAsync(1_000);
    const old = fixture.last;
    const call = old.begin();
    old.leave();
    await settle();
    expect(fixture.subchannel.connection).toBe(fixture.last);
    expect(fixture.last).not.toBe(old);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    expect(fixture.told).toEqual(['connected', 'disconnected cleanly', 'connected']);
    call.finish();
    expect(await call.ended).toBe('finished');
    expect(old.isOpen).toBe(false);
  });

  it('lets running calls continue without a limit, until the endpoint itself leaves', async () => {
    const fixture = await readyFixture({ pool: { drainTimeoutMs: 10_000 } });
    const running = fixture.last.begin();
    const call = fixture.call();
    fixture.last.leave();
    await fixture.clock.advanceAsync(3_600_000);
    expect(fixture.fake.connections[0]?.isOpen).toBe(true);
    fixture.subchannel.drain(true);
    await fixture.clock.advanceAsync(9_999);
    expect(fixture.fake.connections[0]?.isOpen).toBe(true);
    await fixture.clock.advanceAsync(1);
    expect(await running.ended).toBe('cut');
    call.end();
  });

  it('is waited for without limit where drainTimeoutMs is Infinity', async () => {
    const fixture = await readyFixture({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    fixture.last.begin();
    fixture.last.leave();
    await fixture.clock.advanceAsync(86_400_000);
    expect(fixture.fake.connections[0]?.isOpen).toBe(true);
    expect(fixture.clock.timers).toBe(0);
  });

  it('is replaced at once after a call succeeded on it, however young it is', async () => {
    const fixture = await readyFixture();
    for (let round = 0; round < 20; round++) {
      fixture.call().end();
      fixture.changes.length = 0;
      fixture.last.leave();
      await settle();
      expect(fixture.changes).toEqual(['ready → connecting', 'connecting → ready']);
      await fixture.clock.advanceAsync(10);
    }
    expect(fixture.subchannel.lastError).toBeUndefined();
    expect(fixture.troubles).toBe(0);
  });

  it('is replaced at once without a call on it, too, unless it was younger than 50 ms', async () => {
    const fixture = await readyFixture();
    for (let round = 0; round < 20; round++) {
      await fixture.clock.advanceAsync(50);
      fixture.last.leave();
      await settle();
      expect(fixture.state).toBe('ready');
    }
    await fixture.clock.advanceAsync(49);
    fixture.last.leave();
    await settle();
    expect(fixture.state).toBe('idle');
    await fixture.clock.advanceAsync(200);
    expect(fixture.state).toBe('ready');
  });

  it.each([
    ['was cancelled', 'cancelled'],
    ['was refused', 'not-started'],
    ['failed', 'failure'],
  ] as const)(
    'causes a growing pause when it comes right after connecting and the only call on it %s',
    async (_, kind) => {
      const fixture = await readyFixture();
      const pauses: number[] = [];
      for (let round = 0; round < 8; round++) {
        fixture.call().end({ kind });
        fixture.last.leave();
        await settle();
        // Idle, since nothing failed: callers wait for it.
        expect(fixture.state).toBe('idle');
        expect(fixture.subchannel.lastError).toBeUndefined();
        pauses.push(Math.round(fixture.clock.nextInMs as number));
        await fixture.clock.advanceAsync(fixture.clock.nextInMs as number);
        expect(fixture.state).toBe('ready');
      }
      expect(pauses).toEqual([200, 320, 512, 819, 1311, 2097, 3000, 3000]);
      expect(fixture.told.at(-2)).toBe('disconnected cleanly');
      expect(fixture.troubles).toBe(8);
    },
  );

  it('ends such pauses once it was useful', async () => {
    const fixture = await readyFixture();
    for (let round = 0; round < 4; round++) {
      fixture.last.leave();
      await settle();
      await fixture.clock.advanceAsync(fixture.clock.nextInMs as number);
    }
    fixture.call().end();
    fixture.last.leave();
    await settle();
    expect(fixture.state).toBe('ready');
    fixture.last.leave();
    await settle();
    expect(fixture.clock.nextInMs).toBeCloseTo(200);
  });

  it.each(['drain', 'destroy'] as const)(
    'leaves no timer behind when its endpoint leaves during the pause (%s)',
    async (how) => {
      const fixture = await readyFixture();
      fixture.last.leave();
      await settle();
      expect(fixture.state).toBe('idle');
      if (how === 'drain') fixture.subchannel.drain(true);
      else fixture.subchannel.destroy();
      await settle();
      await expectNothingLeft(fixture);
    },
  );

  it('changes nothing by later events', async () => {
    const fixture = await readyFixture();
    await fixture.clock.advanceAsync(1_000);
    const old = fixture.last;
    old.begin();
    old.leave();
    await settle();
    fixture.changes.length = 0;
    old.end(new Error('late'));
    old.leave();
    await settle();
    expect(fixture.changes).toEqual([]);
    expect(fixture.state).toBe('ready');
    expect(fixture.subchannel.lastError).toBeUndefined();
  });
});

describe('observers that call the subchannel', () => {
  it.each(['connecting', 'ready', 'backoff', 'draining'] as const)('may end it during %s', async (moment) => {
    const fixture: SubchannelFixture = new SubchannelFixture({
      pool: { maxConnectionAgeMs: AGE_MS },
      observer: {
        subchannelChanged: ({ to }) => {
          if (to === moment) fixture.subchannel.destroy();
        },
      },
    });
    if (moment === 'backoff') fixture.behaviour = 'refuse';
    await fixture.open();
    if (moment === 'draining') fixture.subchannel.drain(false);
    await settle();
    expect(fixture.clock.timers).toBe(0);
    await fixture.clock.advanceAsync(120_000);
    await expectNothingLeft(fixture);
  });

  it('may drain it while it becomes ready: trackers are not told that it is connected', async () => {
    const fixture: SubchannelFixture = new SubchannelFixture({
      observer: {
        subchannelChanged: ({ to }) => {
          if (to === 'ready') fixture.subchannel.drain(true);
        },
      },
    });
    await fixture.open();
    expect(fixture.told).toEqual(['closed']);
    await expectNothingLeft(fixture);
  });

  it.each([
    ['leaving', 10],
    ['closed', 10],
    ['failed', 10],
    ['leaving', 10_000],
  ] as const)(
    'may drain it from a tracker: nothing is opened after a connection ended (%s, %i ms old)',
    async (how, ms) => {
      const fixture: SubchannelFixture = new SubchannelFixture({
        tracker: { disconnected: () => fixture.subchannel.drain(true), closed: () => fixture.told.push('closed') },
      });
      await fixture.open();
      const call = fixture.call();
      await fixture.clock.advanceAsync(ms);
      if (how === 'leaving') fixture.last.leave();
      else fixture.last.end(how === 'failed' ? new Error('reset') : undefined);
      await settle();
      expect(fixture.state).toBe('draining');
      call.end();
      await expectNothingLeft(fixture);
      expect(fixture.fake.attempts).toHaveLength(1);
    },
  );

  it('may end its last call when they are notified of draining', async () => {
    let call: ReturnType<SubchannelFixture['call']> | undefined;
    const fixture: SubchannelFixture = await readyFixture({
      observer: {
        subchannelChanged: ({ to }) => {
          if (to === 'draining') call?.end();
        },
      },
    });
    call = fixture.call();
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });
});
