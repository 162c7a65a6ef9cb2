import { AsyncLocalStorage } from 'node:async_hooks';
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import type { TracedAttempt, TracedCall } from '../../../src/observe/traces.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const calls = tracingChannel('evenkeel:call') as unknown as TracingChannel<object, TracedCall>;
const attempts = tracingChannel('evenkeel:attempt') as unknown as TracingChannel<object, TracedAttempt>;
const events = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const;

const undo: (() => void)[] = [];
afterEach(() => {
  for (const one of undo.splice(0)) one();
});

function subscribe(channel: (typeof calls | typeof attempts)['start'], listener: (message: never) => void): void {
  channel.subscribe(listener as never);
  undo.push(() => channel.unsubscribe(listener as never));
}

/** What is published, as `call start`, `attempt 1 end`. */
function listen(): { readonly told: string[]; readonly calls: TracedCall[]; readonly attempts: TracedAttempt[] } {
  const heard = { told: [] as string[], calls: [] as TracedCall[], attempts: [] as TracedAttempt[] };
  for (const event of events) {
    subscribe(calls[event], (call: TracedCall) => {
      heard.told.push(`call ${event}`);
      if (event === 'asyncEnd') heard.calls.push(call);
    });
    subscribe(attempts[event], (attempt: TracedAttempt) => {
      heard.told.push(`attempt ${attempt.attempt} ${event}`);
      if (event === 'asyncEnd') heard.attempts.push(attempt);
    });
  }
  return heard;
}

async function threePods(): Promise<BalancerFixture> {
  const fixture = new BalancerFixture();
  await fixture.publish(
    { address: '10.0.0.1', port: 80, name: 'orders-a', zone: 'z1' },
    { address: '10.0.0.2', port: 80, name: 'orders-b', zone: 'z2' },
  );
  return fixture;
}
const reset = (): Error => Object.assign(new Error('reset'), { code: 'ECONNRESET' });

describe('the tracing channels', () => {
  it('publish a call and its attempt, in the order of Node', async () => {
    const { balancer } = await threePods();
    const heard = listen();
    await balancer.run(async () => {
      expect(heard.told).toEqual(['call start', 'attempt 1 start']);
      await undefined;
    });
    expect(heard.told).toEqual([
      'call start',
      'attempt 1 start',
      'attempt 1 end',
      'call end',
      'attempt 1 asyncStart',
      'attempt 1 asyncEnd',
      'call asyncStart',
      'call asyncEnd',
    ]);
    expect(heard.attempts[0]).toMatchObject({
      attempt: 1,
      reason: 'first',
      waitedMs: 0,
      outcome: outcomes.success,
      endpoint: { address: '10.0.0.1', port: 80, name: 'orders-a', zone: 'z1' },
    });
    expect(heard.calls[0]).toMatchObject({ protocol: 'custom', target: balancer.name, attempts: 1, error: undefined });
    expect(heard.attempts[0]?.call).toBe(heard.calls[0]);
  });

  it('publish why another attempt was made, and what failed', async () => {
    const { balancer } = await threePods();
    const heard = listen();
    let uses = 0;
    const error = reset();
    const use = async (): Promise<number> => {
      if (++uses === 1) throw error;
      return uses;
    };
    expect(await balancer.run(use, { idempotent: true })).toBe(2);
    expect(heard.attempts).toMatchObject([
      { attempt: 1, reason: 'first', outcome: outcomes.reset, error },
      { attempt: 2, reason: 'retry', outcome: outcomes.success, error: undefined },
    ]);
    expect(heard.calls).toMatchObject([{ attempts: 2, outcome: outcomes.success, error: undefined }]);
    expect(heard.told.filter((one) => one.endsWith('error'))).toEqual(['attempt 1 error']);
  });

  it('publish a call that fails', async () => {
    const { balancer } = await threePods();
    const heard = listen();
    const error = new Error('refused by the application');
    await failure(balancer.run(() => Promise.reject(error)));
    expect(heard.calls).toMatchObject([{ attempts: 1, error }]);
    expect(heard.told.filter((one) => one.endsWith('error'))).toEqual(['attempt 1 error', 'call error']);
  });

  it('publish how long a call waited, and a call that gets no endpoint', async () => {
    const fixture = new BalancerFixture({ waitTimeoutMs: 1_000 });
    const heard = listen();
    const served = fixture.balancer.run(() => 1);
    fixture.clock.advance(250);
    await fixture.publish('10.0.0.1');
    await served;
    expect(heard.attempts).toMatchObject([{ waitedMs: 250 }]);
    expect(heard.calls).toMatchObject([{ waitedMs: 250 }]);
    await fixture.publish();
    expect(await failure(fixture.balancer.run(() => 1))).toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    expect(heard.calls[1]).toMatchObject({
      attempts: 0,
      outcome: outcomes.notStarted,
      error: { code: 'EVENKEEL_NO_ENDPOINTS' },
    });
  });

  it('publish a call that is given up while it waits', async () => {
    const { balancer, clock } = new BalancerFixture();
    const heard = listen();
    const caller = new AbortController();
    const run = failure(balancer.run(() => 1, { signal: caller.signal }));
    await settle();
    clock.advance(10);
    const reason = new Error('enough');
    caller.abort(reason);
    expect(await run).toBe(reason);
    expect(heard.calls).toMatchObject([{ attempts: 0, waitedMs: 10, outcome: outcomes.cancelled, error: reason }]);
  });

  it('publish a call that is given up on an endpoint', async () => {
    const { balancer } = await threePods();
    const heard = listen();
    const caller = new AbortController();
    const run = failure(
      balancer.run(
        (_, __, signal) =>
          new Promise((_resolve, reject) => {
            signal?.addEventListener('abort', () => reject(signal.reason));
          }),
        { signal: caller.signal },
      ),
    );
    const reason = new Error('enough');
    caller.abort(reason);
    expect(await run).toBe(reason);
    expect(heard.calls).toMatchObject([{ attempts: 1, outcome: outcomes.cancelled, error: reason }]);
    expect(heard.attempts).toMatchObject([{ outcome: outcomes.cancelled }]);
  });

  it('publish nothing for calls that began before the first subscription, and everything for later ones', async () => {
    const { balancer } = await threePods();
    let finish = (): void => {};
    const early = balancer.run(() => new Promise<void>((resolve) => (finish = resolve)));
    const heard = listen();
    finish();
    await early;
    expect(heard.told).toEqual([]);
    const late = balancer.run(() => new Promise<void>((resolve) => (finish = resolve)));
    for (const one of undo.splice(0)) one();
    finish();
    await late;
    expect(heard.told).toEqual(['call start', 'attempt 1 start', 'attempt 1 end', 'call end']);
  });

  it('work for a subscriber to one channel only', async () => {
    const { balancer } = await threePods();
    for (const event of events.slice(0, 4)) {
      for (const channel of [calls, attempts]) {
        let told = 0;
        subscribe(channel[event], () => told++);
        await balancer.run(() => 1);
        expect(told).toBe(1);
        for (const one of undo.splice(0)) one();
      }
    }
  });
});

describe('the async context', () => {
  it('of an attempt is that of its start and of its call, also for a second attempt', async () => {
    const { balancer } = await threePods();
    const ofCall = new AsyncLocalStorage<string>();
    const ofAttempt = new AsyncLocalStorage<number>();
    calls.start.bindStore(ofCall as never, (() => 'call') as never);
    attempts.start.bindStore(ofAttempt as never, ((attempt: TracedAttempt) => attempt.attempt) as never);
    undo.push(
      () => calls.start.unbindStore(ofCall as never),
      () => attempts.start.unbindStore(ofAttempt as never),
    );
    const own = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    let uses = 0;
    let fail = (_: Error): void => {};
    const use = (): Promise<unknown> => {
      seen.push([own.getStore(), ofCall.getStore(), ofAttempt.getStore()]);
      return ++uses === 1 ? new Promise((_, reject) => (fail = reject)) : Promise.resolve();
    };
    const run = own.run('caller', () => balancer.run(use, { idempotent: true }));
    await settle();
    // In a context that is nobody's.
    fail(reset());
    await run;
    expect(seen).toEqual([
      ['caller', 'call', 1],
      ['caller', 'call', 2],
    ]);
    expect([ofCall.getStore(), ofAttempt.getStore()]).toEqual([undefined, undefined]);
  });

  it('of an attempt that had to wait is that of its call', async () => {
    const fixture = new BalancerFixture();
    const own = new AsyncLocalStorage<string>();
    listen();
    const run = own.run('caller', () => fixture.balancer.run(() => own.getStore()));
    await fixture.publish('10.0.0.1');
    expect(await run).toBe('caller');
  });

  it('may be kept by something other than an AsyncLocalStorage', async () => {
    const { balancer } = await threePods();
    const inside: string[] = [];
    const within = (name: string) => (run: () => void) => {
      inside.push(name);
      run();
      inside.pop();
    };
    subscribe(calls.start, (call: TracedCall) => call.around(within('call')));
    subscribe(attempts.start, (attempt: TracedAttempt) => attempt.around(within('attempt')));
    expect(await balancer.run(() => [...inside])).toEqual(['call', 'attempt']);
    expect(inside).toEqual([]);
  });
});

describe('a subscriber', () => {
  it('that does not run what it is given, or runs it twice, changes nothing', async () => {
    const { balancer } = await threePods();
    let uses = 0;
    subscribe(calls.start, (call: TracedCall) => call.around(() => {}));
    subscribe(attempts.start, (attempt: TracedAttempt) =>
      attempt.around((run) => {
        run();
        run();
      }),
    );
    expect(await balancer.run(() => ++uses)).toBe(1);
    expect(uses).toBe(1);
  });

  it('may abort the call at its start: nothing is sent', async () => {
    for (const channel of [calls, attempts]) {
      const { balancer } = await threePods();
      const caller = new AbortController();
      const reason = new Error('enough');
      const heard = listen();
      subscribe(channel.start, () => caller.abort(reason));
      const run = balancer.run(
        (_, __, signal) => {
          signal?.throwIfAborted();
        },
        { signal: caller.signal },
      );
      expect(await failure(run)).toBe(reason);
      expect(heard.calls).toMatchObject([{ error: reason }]);
      expect(heard.attempts.every(({ outcome }) => outcome !== undefined)).toBe(true);
      expect(balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0]);
      for (const one of undo.splice(0)) one();
    }
  });

  it('may close the balancer at its start', async () => {
    const { balancer } = await threePods();
    const heard = listen();
    let closed: Promise<void> | undefined;
    subscribe(calls.start, () => {
      closed = balancer.close();
    });
    expect(await failure(balancer.run(() => 1))).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(heard.calls).toMatchObject([{ attempts: 0, error: { code: 'EVENKEEL_CLOSED' } }]);
    await closed;
  });

  it('that throws does not reach the call; Node makes it an uncaught exception', async () => {
    const { balancer } = await threePods();
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    const caught: unknown[] = [];
    process.on('uncaughtException', (error) => caught.push(error));
    try {
      for (const channel of [calls, attempts]) {
        for (const event of events) {
          subscribe(channel[event], () => {
            throw new Error('of a subscriber');
          });
        }
        subscribe(channel.start, (message: TracedCall | TracedAttempt) =>
          message.around(() => {
            throw new Error('of a wrap');
          }),
        );
      }
      expect(await balancer.run(() => 7)).toBe(7);
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const listener of others) process.on('uncaughtException', listener);
    }
    expect(caught).toHaveLength(10);
    expect(balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0]);
  });
});
