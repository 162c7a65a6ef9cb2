import { connectivityState, Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { BalancedCall, GrpcAttempt } from '../../../../src/adapter/grpc-js/balanced-call.js';
import type { PodConnection } from '../../../../src/adapter/grpc-js/pod-connection.js';
import { Method } from '../../../../src/adapter/grpc-js/service-config.js';
import type { CallLease } from '../../../../src/call/lease.js';
import type { Outcome } from '../../../../src/endpoint/outcome.js';
import type { ObserverEvents } from '../../../../src/observe/observer.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

interface Ended {
  readonly outcome: Outcome;
  readonly latencyMs: number;
  readonly answered: boolean;
}

/** One pod, calls on it, and what its leases heard. */
function world({ isHedged = false } = {}) {
  const clock = new FakeClock();
  const hedgingPolicy = { maxAttempts: 2, hedgingDelay: '1s', nonFatalStatusCodes: [] };
  const method = new Method('/a/b', { methodConfig: isHedged ? [{ name: [{}], hedgingPolicy }] : [] });
  const told: Partial<ObserverEvents['attemptEnded']>[] = [];
  const observer = {
    attemptEnded: ({ endpoint: _endpoint, error: _error, ...rest }: ObserverEvents['attemptEnded']) => told.push(rest),
  };
  const owner = { settled: () => {} };
  const counted: string[] = [];
  const retries = { followed: (what: string) => counted.push(what), hedgeWon: () => counted.push('won') };
  let ready = true;
  const http2 = {
    streams: 0,
    subchannel: { getConnectivityState: () => connectivityState.READY },
    get ready() {
      return ready;
    },
  };
  const connection = {
    callStarted: () => http2.streams++,
    callEnded: () => http2.streams--,
  } as unknown as PodConnection;
  const attempt = (call: BalancedCall) => {
    let ended: Ended | undefined;
    const startedMs = clock.now();
    let answeredMs: number | undefined;
    const lease = {
      handle: connection,
      subchannel: {},
      endpoint: {},
      observer,
      retries,
      get outcome() {
        return ended?.outcome;
      },
      get answered() {
        return answeredMs !== undefined;
      },
      progressed: () => {
        answeredMs ??= clock.now();
      },
      // The latency that counts by default is that of a real lease.
      end: (outcome: Outcome, latencyMs = (answeredMs ?? clock.now()) - startedMs) => {
        ended = { outcome, latencyMs, answered: answeredMs !== undefined };
      },
    } as unknown as CallLease<PodConnection>;
    const made = new GrpcAttempt(call, lease, http2 as never, owner);
    return {
      attempt: made,
      ended: () => ended,
      /** As grpc-js ends it: trailers to the filter after the attempt. */
      end: (code: status, details = '') => {
        made.onCallEnded?.(code, details, new Metadata());
        call.receiveTrailers({ code });
        return ended;
      },
    };
  };
  const call = () => new BalancedCall(method);
  /** A call that answered with so many messages. */
  const answered = (messages: number) => {
    const made = call();
    const { end } = attempt(made);
    made.receiveMetadata(new Metadata());
    for (let message = 0; message < messages; message++) made.receiveMessage(Buffer.alloc(0));
    return end(status.OK);
  };
  return {
    clock,
    told,
    counted,
    http2,
    attempt,
    call,
    answered,
    lose: () => {
      ready = false;
    },
  };
}

describe('the latency of an endpoint', () => {
  it.each([1, 3])('is the time until its response began, where that has %i messages', (messages) => {
    const { clock, call, attempt } = world();
    const made = call();
    const { end } = attempt(made);
    clock.advance(5);
    made.receiveMetadata(new Metadata());
    for (let message = 0; message < messages; message++) {
      clock.advance(60_000);
      made.receiveMessage(Buffer.alloc(0));
    }
    expect(end(status.OK)).toMatchObject({ outcome: { kind: 'success' }, latencyMs: 5 });
  });
});

describe('a call that ends without an answer', () => {
  const endQuietly = (code: status, known: 'nothing' | 'single' | 'streaming') => {
    const { clock, call, attempt, answered } = world();
    if (known !== 'nothing') answered(known === 'single' ? 1 : 2);
    const { end } = attempt(call());
    clock.advance(60_000);
    return end(code);
  };

  it('at its deadline is a timeout, unless its method is known to stream', () => {
    const timeout = { kind: 'failure', cause: 'timeout' };
    expect(endQuietly(status.DEADLINE_EXCEEDED, 'nothing')?.outcome).toEqual(timeout);
    expect(endQuietly(status.DEADLINE_EXCEEDED, 'single')?.outcome).toEqual(timeout);
    expect(endQuietly(status.DEADLINE_EXCEEDED, 'streaming')).toEqual({
      outcome: { kind: 'cancelled' },
      latencyMs: 0,
      answered: true,
    });
  });

  it('because its caller gave up may be a stall only where the method is known to answer once', () => {
    expect(endQuietly(status.CANCELLED, 'single')).toEqual({
      outcome: { kind: 'cancelled' },
      latencyMs: 60_000,
      answered: false,
    });
    expect(endQuietly(status.CANCELLED, 'nothing')).toMatchObject({ answered: true });
    expect(endQuietly(status.CANCELLED, 'streaming')).toMatchObject({ answered: true, latencyMs: 0 });
  });
});

describe('an endpoint in use', () => {
  it('counts a call until its attempt ends, once', () => {
    const { call, attempt, http2 } = world();
    const made = call();
    const { attempt: first, ended, end } = attempt(made);
    expect(http2.streams).toBe(1);
    first.onCallStarted();
    end(status.OK);
    expect(http2.streams).toBe(0);
    made.receiveTrailers({ code: status.OK });
    expect(http2.streams).toBe(0);
    expect(ended()?.outcome.kind).toBe('success');
  });

  it('is given back when its call ends before it was sent', () => {
    const { call, attempt, http2 } = world();
    const made = call();
    const { ended } = attempt(made);
    made.receiveTrailers({ code: status.CANCELLED });
    expect(ended()?.outcome).toEqual({ kind: 'not-started' });
    expect(http2.streams).toBe(0);
  });

  it('is given back when its connection was lost before the call was sent and another attempt is made', () => {
    const { call, attempt, http2, lose } = world();
    const made = call();
    const { attempt: first, ended } = attempt(made);
    lose();
    first.followedByPick();
    expect(ended()?.outcome).toEqual({ kind: 'not-started' });
    expect(http2.streams).toBe(0);
  });

  it('stays in use while another attempt of the same call is made beside it', () => {
    const { call, attempt, http2 } = world();
    const made = call();
    const { attempt: first, ended } = attempt(made);
    first.followedByPick();
    attempt(made);
    expect(ended()).toBeUndefined();
    expect(http2.streams).toBe(2);
    expect(made.tried?.size).toBe(2);
    expect(call().tried).toBeUndefined();
  });
});

describe('observers', () => {
  it('learn of a failed attempt when it is known whether another follows', () => {
    const { call, attempt, told } = world();
    const made = call();
    const first = attempt(made);
    first.attempt.onCallEnded?.(status.UNAVAILABLE, 'Connection dropped', new Metadata());
    expect(told).toEqual([]);
    first.attempt.followedByPick();
    const outcome = { kind: 'failure', cause: 'reset' };
    expect(told).toEqual([{ outcome, attempt: 1, retrying: true }]);
    attempt(made).end(status.UNAVAILABLE, 'Connection dropped');
    expect(told[1]).toEqual({ outcome, attempt: 2, retrying: false });
    expect(told.length).toBe(2);
  });

  it('learn that another attempt follows even if it began before the end of the first was reported', () => {
    const { call, attempt, told } = world();
    const made = call();
    const first = attempt(made);
    first.attempt.onCallStarted();
    first.attempt.followedByPick();
    attempt(made);
    first.attempt.onCallEnded?.(status.UNAVAILABLE, 'Connection dropped', new Metadata());
    expect(told).toEqual([{ outcome: { kind: 'failure', cause: 'reset' }, attempt: 1, retrying: true }]);
  });

  it('learn of an attempt that succeeded, and of one that was never sent', () => {
    const { call, attempt, told, lose } = world();
    const made = call();
    const first = attempt(made);
    lose();
    first.attempt.followedByPick();
    attempt(made).end(status.OK);
    expect(told).toEqual([
      { outcome: { kind: 'not-started' }, attempt: 1, retrying: true },
      { outcome: { kind: 'success' }, attempt: 2, retrying: false },
    ]);
  });
});

describe('the counts of a channel', () => {
  it('include retries by how the previous attempt failed, and endpoints that were picked again', () => {
    const { call, attempt, counted, lose } = world();
    const made = call();
    const first = attempt(made);
    first.attempt.onCallStarted();
    made.followedByPick();
    first.attempt.onCallEnded?.(status.UNAVAILABLE, 'no', new Metadata());
    expect(counted).toEqual(['reset']);
    attempt(made);
    lose();
    made.followedByPick();
    expect(counted).toEqual(['reset', 'not-started']);
    attempt(made).end(status.OK);
    expect(counted).toEqual(['reset', 'not-started']);
  });

  it('include hedges, and those that won', () => {
    const { call, attempt, counted } = world({ isHedged: true });
    const made = call();
    const first = attempt(made);
    first.attempt.onCallStarted();
    made.followedByPick();
    const second = attempt(made);
    expect(counted).toEqual(['hedge']);
    second.attempt.onCallEnded?.(status.OK, '', new Metadata());
    first.attempt.onCallEnded?.(status.CANCELLED, 'Discarded in favor of other hedged attempt', new Metadata());
    made.receiveTrailers({ code: status.OK });
    expect(counted).toEqual(['hedge', 'won']);
  });
});
