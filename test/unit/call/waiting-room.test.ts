import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { CallLease } from '../../../src/call/lease.js';
import { WaitingRoom, type WaitRequest } from '../../../src/call/waiting-room.js';
import { EvenkeelError, isEvenkeelError } from '../../../src/errors.js';
import { Stopper } from '../../../src/runtime/stopper.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { failure, stateOf } from '../../support/fixtures/balancer-fixture.js';

/** A room whose picks are names a test has put out, by key (`''` = without). */
class Room {
  readonly clock = new FakeClock();
  /** What can be picked: by key, and without one. */
  readonly free = new Map<string, string[]>();
  tries = 0;
  readonly room: WaitingRoom<string>;

  constructor(limit = 1_000) {
    this.room = new WaitingRoom<string>({
      clock: this.clock,
      maxWaiting: limit,
      stalledSince: () => false,
      tryPick: (key) => {
        this.tries++;
        return this.free.get(key ?? '')?.shift() as unknown as CallLease<string> | undefined;
      },
      timedOut: (timeoutMs) => new EvenkeelError('EVENKEEL_NOT_READY', `in vain for ${timeoutMs}`),
      overload: () => new EvenkeelError('EVENKEEL_OVERLOAD', 'shed'),
      tooLate: () => new EvenkeelError('EVENKEEL_TOO_LATE', 'too late'),
    });
  }

  wait(more: Partial<WaitRequest> = {}): Promise<unknown> {
    return this.room.wait({ key: undefined, avoid: undefined, signal: undefined, timeoutMs: 5_000, ...more });
  }

  put(key: string, ...names: string[]): void {
    this.free.set(key, [...(this.free.get(key) ?? []), ...names]);
  }
}

describe('the waiting room', () => {
  it('serves callers in order of arrival, as many as get an endpoint', async () => {
    const room = new Room();
    const waiting = [room.wait(), room.wait(), room.wait()];
    room.put('', 'first', 'second');
    room.room.wake();
    expect(await waiting[0]).toBe('first');
    expect(await waiting[1]).toBe('second');
    expect(room.room.size).toBe(1);
    expect(room.clock.timers).toBe(1);
    expect(room.tries).toBe(3);
  });

  it('makes a caller with a key wait for its endpoint while those behind it are served', async () => {
    const room = new Room();
    const keyed = room.wait({ key: 'a' });
    const plain = room.wait();
    room.put('', 'x');
    room.room.wake();
    expect(await plain).toBe('x');
    expect(await stateOf(keyed)).toBe('pending');
    room.put('a', 'y');
    room.room.wake();
    expect(await keyed).toBe('y');
  });

  it('tries no further when a caller without a key gets nothing: nobody would', async () => {
    const room = new Room();
    for (let i = 0; i < 100; i++) void room.wait();
    room.room.wake();
    expect(room.tries).toBe(1);
  });

  it('tries a limited number of keys each time, and reaches all of them in turn', async () => {
    const room = new Room();
    const busy = Array.from({ length: 500 }, (_, i) => room.wait({ key: `busy ${i}` }));
    const last = room.wait({ key: 'free' });
    room.put('free', 'x');
    room.room.wake();
    expect(room.tries).toBeLessThanOrEqual(16);
    for (let call = 0; call < 70; call++) room.room.wake();
    expect(await last).toBe('x');
    expect(await stateOf(busy[0] as Promise<unknown>)).toBe('pending');
    // Having come round it goes on: one that came later is found, too.
    const later = room.wait({ key: 'later' });
    room.put('later', 'y');
    for (let call = 0; call < 140; call++) room.room.wake();
    expect(await later).toBe('y');
  });

  it('serves callers outside the limit first, and sheds the others around them', async () => {
    const clock = new FakeClock();
    const free: string[] = [];
    const room = new WaitingRoom<string>({
      clock,
      maxWaiting: 3,
      limit: { hasRoom: false, shedAfterMs: 100, leastMs: 0 },
      stalledSince: () => false,
      tryPick: (_key, _avoid, unlimited) => (unlimited ? (free.shift() as never) : undefined),
      timedOut: () => new EvenkeelError('EVENKEEL_NOT_READY', 'in vain'),
      overload: () => new EvenkeelError('EVENKEEL_OVERLOAD', 'shed'),
      tooLate: () => new EvenkeelError('EVENKEEL_TOO_LATE', 'too late'),
    });
    const wait = (more: Partial<WaitRequest>): Promise<unknown> =>
      room.wait({ key: undefined, avoid: undefined, signal: undefined, timeoutMs: 5_000, ...more });
    const plain = failure(wait({}));
    const outside = [wait({ unlimited: true }), wait({ unlimited: true, deadlineMs: 1 })];
    clock.advance(200);
    room.wake();
    expect(await plain).toMatchObject({ code: 'EVENKEEL_OVERLOAD' });
    free.push('a', 'b');
    room.wake();
    expect(await Promise.all(outside)).toEqual(['a', 'b']);
    // A full room gives up one that may be shed, but none that is critical.
    const critical = [wait({ priority: 'critical' }), wait({ priority: 'critical' })];
    const sheddable = failure(wait({ priority: 'sheddable' }));
    const late = wait({ unlimited: true });
    expect(await sheddable).toMatchObject({ code: 'EVENKEEL_OVERLOAD' });
    expect(await failure(wait({ unlimited: true }))).toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
    room.close(new EvenkeelError('EVENKEEL_CLOSED', 'closed'));
    for (const waiting of [...critical, late])
      expect(await failure(waiting)).toMatchObject({ code: 'EVENKEEL_CLOSED' });
  });

  it('lets a caller leave whose wait is stopped, with the reason, and holds nothing of it', async () => {
    const room = new Room();
    const stopper = new Stopper();
    const stopped = failure(room.wait({ stopper }));
    stopper.stop(new Error('enough'));
    stopper.stop(new Error('more than enough'));
    expect(await stopped).toMatchObject({ message: 'enough' });
    expect(room.room.size).toBe(0);
    expect(room.clock.timers).toBe(0);
    await expect(room.wait({ stopper })).rejects.toMatchObject({ message: 'enough' });
    const served = new Stopper();
    const waiting = room.wait({ stopper: served });
    room.put('', 'x');
    room.room.wake();
    expect(await waiting).toBe('x');
    expect(served.onStop).toBeUndefined();
  });

  it('rejects the callers that it is told to, except for those that wait for ready, until it closes', async () => {
    const made = new Room();
    const { room, clock } = made;
    const wait = (more?: Partial<WaitRequest>) => made.wait(more);
    const waiting = [wait(), wait({ waitForReady: true }), wait({ priority: 'critical' })];
    clock.advance(1);
    const later = wait();
    room.fail(new EvenkeelError('EVENKEEL_CONNECT', 'refused'), clock.now() - 1);
    for (const index of [0, 2]) expect(await failure(waiting[index] as never)).toMatchObject({ message: 'refused' });
    expect(room.size).toBe(2);
    room.fail(new EvenkeelError('EVENKEEL_NO_ENDPOINTS', 'empty'));
    expect(await failure(later)).toMatchObject({ message: 'empty' });
    room.close(new EvenkeelError('EVENKEEL_CLOSED', 'closed'));
    expect(await failure(waiting[1] as never)).toMatchObject({ message: 'closed' });
    expect([room.size, clock.timers]).toEqual([0, 0]);
  });

  it('turns callers away when it is full, and has room again when one leaves', async () => {
    const room = new Room(2);
    const controller = new AbortController();
    void room.wait();
    const leaving = failure(room.wait({ signal: controller.signal }));
    expect(await failure(room.wait())).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_QUEUE_FULL'));
    controller.abort(new Error('enough'));
    expect(await leaving).toMatchObject({ message: 'enough' });
    expect(await stateOf(room.wait())).toBe('pending');
    await expect(new Room(0).wait()).rejects.toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
  });

  it('ends the wait at each caller’s own time', async () => {
    const room = new Room();
    const short = failure(room.wait({ timeoutMs: 100 }));
    const long = room.wait({ timeoutMs: 200 });
    await room.clock.advanceAsync(100);
    expect(await short).toMatchObject({ message: 'in vain for 100' });
    expect(await stateOf(long)).toBe('pending');
    expect(room.room.size).toBe(1);
  });

  it('keeps the process alive while a caller waits, and only then', async () => {
    const room = new Room();
    const waiting = room.wait();
    expect(room.clock.referencedTimers).toBe(1);
    room.put('', 'x');
    room.room.wake();
    await waiting;
    expect(room.clock.timers).toBe(0);
  });

  it('processes what came in during a blocked event loop before it turns anyone away', async () => {
    const room = new Room();
    const waiting = room.wait({ timeoutMs: 1_000 });
    await room.clock.stall(10_000);
    expect(await stateOf(waiting)).toBe('pending');
    room.put('', 'x');
    room.room.wake();
    expect(await waiting).toBe('x');
    expect(room.clock.timers).toBe(0);
  });

  it('leaves no listener on a signal, however many callers wait with it and however they leave', async () => {
    const room = new Room();
    const { signal } = new AbortController();
    const served = room.wait({ signal });
    const timedOut = failure(room.wait({ signal, timeoutMs: 10 }));
    const turnedAway = failure(room.wait({ signal }));
    room.put('', 'x');
    room.room.wake();
    await served;
    await room.clock.advanceAsync(10);
    await timedOut;
    room.room.fail(new EvenkeelError('EVENKEEL_CLOSED', 'closed'));
    expect(await turnedAway).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect([room.clock.timers, room.room.size]).toEqual([0, 0]);
  });

  it('refuses a caller whose signal has aborted', async () => {
    const room = new Room();
    expect(await failure(room.wait({ signal: AbortSignal.abort(new Error('before')) }))).toMatchObject({
      message: 'before',
    });
    expect(room.room.size).toBe(0);
  });

  it('queues a caller that returns in its continuation behind those that waited', async () => {
    const room = new Room();
    const order: string[] = [];
    const again = room.wait().then(async () => {
      order.push('first');
      await room.wait();
      order.push('first again');
    });
    const second = room.wait().then(() => order.push('second'));
    room.put('', 'x');
    room.room.wake();
    await settle();
    room.put('', 'y', 'z');
    room.room.wake();
    await Promise.all([again, second]);
    expect(order).toEqual(['first', 'second', 'first again']);
  });

  it('may be woken from within a pick: no caller is served twice', async () => {
    const clock = new FakeClock();
    const given: string[] = ['x', 'y', 'z'];
    const room: WaitingRoom<string> = new WaitingRoom<string>({
      clock,
      maxWaiting: 10,
      stalledSince: () => false,
      tryPick: () => {
        room.wake();
        return given.shift() as unknown as CallLease<string> | undefined;
      },
      timedOut: () => new EvenkeelError('EVENKEEL_NOT_READY', 'in vain'),
      overload: () => new EvenkeelError('EVENKEEL_OVERLOAD', 'shed'),
      tooLate: () => new EvenkeelError('EVENKEEL_TOO_LATE', 'too late'),
    });
    const request = { key: undefined, avoid: undefined, signal: undefined, timeoutMs: 5_000 };
    const waiting = [room.wait(request), room.wait(request)];
    room.wake();
    expect(await Promise.all(waiting)).toEqual(['x', 'y']);
    expect([room.size, clock.timers, given]).toEqual([0, 0, ['z']]);
  });
});

describe('the waiting room with a limit', () => {
  const shedAfterMs = 100;

  /** A room in front of a limit that is reached, until `free` says otherwise. */
  class LimitedRoom extends Room {
    readonly limit = { hasRoom: false, shedAfterMs, leastMs: 0 };
    stalled = false;
    override readonly room: WaitingRoom<string>;

    constructor(maxWaiting = 1_000) {
      super();
      this.room = new WaitingRoom<string>({
        clock: this.clock,
        maxWaiting,
        limit: this.limit,
        stalledSince: () => this.stalled,
        tryPick: () => this.free.get('')?.shift() as unknown as CallLease<string> | undefined,
        timedOut: () => new EvenkeelError('EVENKEEL_NOT_READY', 'in vain'),
        overload: (waitedMs) => new EvenkeelError('EVENKEEL_OVERLOAD', `shed after ${waitedMs}`),
        tooLate: (leftMs) => new EvenkeelError('EVENKEEL_TOO_LATE', `${leftMs} left`),
      });
    }
  }

  it('serves in order of arrival while no caller has waited long, and sheds none', async () => {
    const room = new LimitedRoom();
    const first = room.wait();
    const second = room.wait();
    room.clock.advance(99);
    room.put('', 'x', 'y');
    room.room.wake();
    expect(await Promise.all([first, second])).toEqual(['x', 'y']);
    expect(room.room.shed).toBe(0);
  });

  it('serves the newest first once some have waited long, and sheds those', async () => {
    const room = new LimitedRoom();
    const old = failure(room.wait());
    room.clock.advance(60);
    const middle = room.wait();
    room.clock.advance(39);
    const newest = room.wait();
    room.clock.advance(1);
    room.put('', 'x');
    room.room.wake();
    expect(await old).toMatchObject({ code: 'EVENKEEL_OVERLOAD', message: 'shed after 100' });
    expect(await newest).toBe('x');
    expect([room.room.size, room.room.shed]).toEqual([1, 1]);
    room.put('', 'y');
    room.room.wake();
    expect(await middle).toBe('y');
    expect(room.clock.timers).toBe(0);
  });

  it('returns to order of arrival after the limit had room', async () => {
    const room = new LimitedRoom();
    void failure(room.wait());
    room.clock.advance(150);
    room.limit.hasRoom = true;
    room.room.wake();
    room.limit.hasRoom = false;
    const first = room.wait();
    const second = room.wait();
    room.clock.advance(50);
    room.put('', 'x', 'y');
    room.room.wake();
    expect(await Promise.all([first, second])).toEqual(['x', 'y']);
  });

  it('sheds no caller that waits for something else, however long', async () => {
    const room = new LimitedRoom();
    room.limit.hasRoom = true;
    const first = room.wait();
    room.clock.advance(1_000);
    const second = room.wait();
    room.put('', 'x', 'y');
    room.room.wake();
    expect(await Promise.all([first, second])).toEqual(['x', 'y']);
  });

  it('sheds no caller because our own event loop was blocked', async () => {
    const room = new LimitedRoom();
    const first = room.wait();
    room.clock.advance(500);
    room.stalled = true;
    const second = room.wait();
    room.put('', 'x', 'y');
    room.room.wake();
    expect(await Promise.all([first, second])).toEqual(['x', 'y']);
  });

  it('lets a caller leave when less is left of its deadline than an answer takes', async () => {
    const room = new LimitedRoom();
    room.limit.leastMs = 10;
    const early = failure(room.wait({ deadlineMs: 10 }));
    expect(await early).toMatchObject({ code: 'EVENKEEL_TOO_LATE', message: '10 left' });
    const waiting = failure(room.wait({ deadlineMs: 50 }));
    const patient = room.wait({ deadlineMs: 60 });
    room.clock.advance(39);
    expect(room.room.size).toBe(2);
    room.clock.advance(1);
    expect(await waiting).toMatchObject({ code: 'EVENKEEL_TOO_LATE', message: '10 left' });
    room.put('', 'x');
    room.room.wake();
    expect(await patient).toBe('x');
    expect([room.room.size, room.room.shed, room.clock.timers]).toEqual([0, 2, 0]);
  });

  it('does not serve a caller whose answer would come too late: the next one is served', async () => {
    const room = new LimitedRoom();
    const hopeless = failure(room.wait({ deadlineMs: 50 }));
    const next = room.wait();
    room.limit.leastMs = 60;
    room.limit.hasRoom = true;
    room.put('', 'x');
    room.room.wake();
    expect(await hopeless).toMatchObject({ code: 'EVENKEEL_TOO_LATE' });
    expect(await next).toBe('x');
  });

  it('ignores deadlines where callers wait for something else', async () => {
    const room = new LimitedRoom();
    room.limit.hasRoom = true;
    room.limit.leastMs = 10;
    const waiting = failure(room.wait({ deadlineMs: 5, timeoutMs: 50 }));
    room.clock.advance(50);
    expect(await waiting).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
  });

  it('serves by priority, and when full gives up the place of a lower one', async () => {
    const room = new LimitedRoom(3);
    const sheddable = failure(room.wait({ priority: 'sheddable' }));
    const usual = room.wait();
    const critical = room.wait({ priority: 'critical' });
    const second = room.wait({ priority: 'critical' });
    expect(await sheddable).toMatchObject({ code: 'EVENKEEL_OVERLOAD' });
    expect(await failure(room.wait({ priority: 'sheddable' }))).toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
    room.put('', 'x', 'y', 'z');
    room.room.wake();
    expect(await Promise.all([critical, second, usual])).toEqual(['x', 'y', 'z']);
  });
});
