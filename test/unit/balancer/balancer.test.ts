import { describe, expect, it } from 'vitest';
import { type Balancer, createBalancer } from '../../../src/balancer/balancer.js';
import type { BalancerOptions } from '../../../src/balancer/balancer-options.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { isEvenkeelError, ResolveError } from '../../../src/errors.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { exactStages } from '../../../src/stage/standard-stages.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

interface Fixture {
  readonly clock: FakeClock;
  readonly resolver: FakeResolver;
  readonly transport: FakeTransport;
  readonly balancer: Balancer<FakeConnection>;
}

function fixture(options: Partial<BalancerOptions<FakeConnection>> = {}): Fixture {
  const clock = new FakeClock();
  const resolver = new FakeResolver();
  const transport = new FakeTransport();
  const balancer = createBalancer({
    resolver,
    transport,
    clock,
    rng: seededRng(1),
    picker: roundRobin(),
    stages: exactStages([]),
    ...options,
  });
  return { clock, resolver, transport, balancer };
}

const code = (expected: string) => (error: unknown) => isEvenkeelError(error) && error.code === expected;

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.fail('it succeeded'),
    (error: unknown) => error,
  );
}

describe('a balancer', () => {
  it('can be logged as JSON, and nothing of it leads back to itself', async () => {
    const balancer = createBalancer({ resolver: new FakeResolver(), transport: new FakeTransport(), retry: {} });
    expect(() => JSON.stringify({ balancer })).not.toThrow();
    await balancer.close();
  });

  it('connects ahead of the first call and spreads calls evenly', async () => {
    const { resolver, transport, balancer } = fixture();
    resolver.update('10.0.0.1', '10.0.0.2', '10.0.0.3');
    await balancer.ready();
    await settle();
    expect(transport.open()).toHaveLength(3);
    const counts = new Map<string, number>();
    for (let call = 0; call < 300; call++) {
      const address = await balancer.run((connection) => connection.endpoint.address);
      counts.set(address, (counts.get(address) ?? 0) + 1);
    }
    expect([...counts.values()]).toEqual([100, 100, 100]);
    await balancer.close();
    expect(transport.open()).toHaveLength(0);
  });

  it('makes callers wait for the first set, then serves them in order', async () => {
    const { resolver, balancer } = fixture();
    const order: number[] = [];
    const calls = [1, 2, 3].map((number) => balancer.run(() => order.push(number)));
    await settle();
    expect(balancer.snapshot()).toMatchObject({ state: 'starting', waiting: 3 });
    resolver.update('10.0.0.1');
    await Promise.all(calls);
    expect(order).toEqual([1, 2, 3]);
  });

  it('fails with EVENKEEL_NOT_READY after waitTimeoutMs, with a message about the state of the endpoints', async () => {
    const { clock, resolver, transport, balancer } = fixture({ waitTimeoutMs: 700 });
    transport.behaviour.set('10.0.0.1:80', 'refuse');
    resolver.update('10.0.0.1');
    const call = failure(balancer.run(() => {}));
    await clock.advanceAsync(700);
    const error = await call;
    expect(error).toSatisfy(code('EVENKEEL_NOT_READY'));
    expect(String(error)).toContain('10.0.0.1:80');
    expect(balancer.snapshot().waiting).toBe(0);
  });

  it('with waitForReady a caller waits while the Service is empty, and is rejected when the balancer closes', async () => {
    const { resolver, balancer } = fixture();
    resolver.update();
    await settle();
    const served = balancer.acquire({ waitForReady: true });
    await settle();
    resolver.update('10.0.0.1');
    (await served).end(outcomes.success);
    resolver.update();
    await settle();
    const waiting = failure(balancer.acquire({ waitForReady: true }));
    await balancer.close();
    expect(await waiting).toSatisfy(code('EVENKEEL_CLOSED'));
    await expect(balancer.acquire({ waitForReady: 'yes' as never })).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
    });
  });

  it('U5: fails with EVENKEEL_NO_ENDPOINTS at once when the set is known to be empty', async () => {
    const { resolver, balancer } = fixture();
    resolver.update();
    await balancer.ready();
    expect(await failure(balancer.run(() => {}))).toSatisfy(code('EVENKEEL_NO_ENDPOINTS'));
    expect(balancer.snapshot().state).toBe('empty');
  });

  it('U5: waits for the first endpoint with waitForEndpoints', async () => {
    const { resolver, balancer } = fixture({ waitForEndpoints: true });
    resolver.update();
    await balancer.ready();
    const call = balancer.run((connection) => connection.endpoint.address);
    await settle();
    resolver.update('10.0.0.9');
    expect(await call).toBe('10.0.0.9');
  });

  it('turns callers away with EVENKEEL_QUEUE_FULL beyond maxWaiting', async () => {
    const { balancer } = fixture({ maxWaiting: 2 });
    const waiting = [failure(balancer.acquire()), failure(balancer.acquire())];
    expect(await failure(balancer.acquire())).toSatisfy(code('EVENKEEL_QUEUE_FULL'));
    await balancer.close();
    for (const call of waiting) expect(await call).toSatisfy(code('EVENKEEL_CLOSED'));
  });

  it('lets a waiting caller leave by its signal', async () => {
    const { balancer, clock } = fixture();
    const reason = new Error('changed my mind');
    const controller = new AbortController();
    const call = failure(balancer.acquire({ signal: controller.signal }));
    await settle();
    controller.abort(reason);
    expect(await call).toBe(reason);
    expect(balancer.snapshot().waiting).toBe(0);
    expect(clock.timers).toBe(0);
  });

  it('wakes a waiter when a call ends and makes room', async () => {
    const { resolver, transport, balancer } = fixture();
    transport.capacity = 1;
    resolver.update('10.0.0.1');
    const first = await balancer.acquire();
    const second = balancer.acquire();
    await settle();
    expect(balancer.snapshot().waiting).toBe(1);
    first.end(outcomes.success);
    (await second).end(outcomes.success);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, started: 2 });
  });

  it('ends a lease only once', async () => {
    const { resolver, balancer } = fixture();
    resolver.update('10.0.0.1');
    const lease = await balancer.acquire();
    lease.end(outcomes.success);
    lease.end(outcomes.reset);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, started: 1, failed: 0 });
  });

  it('repeats a call on another endpoint if `classify` says that nothing of it was sent', async () => {
    const { resolver, balancer } = fixture();
    resolver.update('10.0.0.1', '10.0.0.2');
    await balancer.ready();
    const tried: string[] = [];
    const use = (connection: { readonly endpoint: { readonly address: string } }): string => {
      tried.push(connection.endpoint.address);
      if (tried.length === 1) throw new Error('nothing was sent');
      return 'done';
    };
    const result = await balancer.run(use, { classify: () => outcomes.notStarted });
    expect(result).toBe('done');
    expect(new Set(tried).size).toBe(2);
  });

  it('repeats a call that may have been sent only if it is idempotent', async () => {
    const { resolver, balancer } = fixture();
    resolver.update('10.0.0.1', '10.0.0.2');
    await balancer.ready();
    const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET' });
    let calls = 0;
    const use = (): string => {
      calls++;
      if (calls === 1) throw reset;
      return 'done';
    };
    expect(await failure(balancer.run(use))).toBe(reset);
    expect(calls).toBe(1);
    calls = 0;
    expect(await balancer.run(use, { idempotent: true })).toBe('done');
  });

  it('W16: ready() rejects after startTimeoutMs with the reason, and the balancer goes on', async () => {
    const { clock, resolver, balancer } = fixture({ startTimeoutMs: 100 });
    const start = failure(balancer.ready());
    resolver.fail(new ResolveError('no answer from the API server'));
    await clock.advanceAsync(100);
    expect(await start).toSatisfy(code('EVENKEEL_RESOLVE'));
    resolver.update('10.0.0.1');
    await balancer.ready();
    expect(await balancer.run(() => 'served')).toBe('served');
  });

  it('W16: a permanent failure ends the waiting at once', async () => {
    const { resolver, balancer } = fixture();
    const start = failure(balancer.ready());
    const call = failure(balancer.acquire());
    await settle();
    resolver.fail(new ResolveError('not allowed to list', { code: 'EVENKEEL_FORBIDDEN', permanent: true }));
    expect(await start).toSatisfy(code('EVENKEEL_FORBIDDEN'));
    expect(await call).toSatisfy(code('EVENKEEL_FORBIDDEN'));
    expect(await failure(balancer.acquire())).toSatisfy(code('EVENKEEL_FORBIDDEN'));
  });

  it('W15: a resolver error leaves the set in use and marks it stale', async () => {
    const { clock, resolver, balancer } = fixture();
    resolver.update('10.0.0.1');
    await balancer.ready();
    await settle();
    resolver.fail(new ResolveError('gone'));
    await clock.advanceAsync(3_600_000);
    expect(balancer.snapshot()).toMatchObject({ staleForMs: 3_600_000, resolveError: 'gone' });
    expect(await balancer.run((connection) => connection.endpoint.address)).toBe('10.0.0.1');
    resolver.fresh();
    expect(balancer.snapshot().staleForMs).toBe(0);
  });

  it('counts a call that its caller gave up after stalledAfterMs without a byte as a failure of the endpoint', async () => {
    const { clock, resolver, balancer } = fixture();
    resolver.update('10.0.0.1');
    await balancer.ready();
    await settle();
    const quick = await balancer.acquire();
    clock.advance(500);
    quick.end(outcomes.cancelled);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0 });
    const answering = await balancer.acquire();
    answering.progressed();
    clock.advance(5_000);
    answering.end(outcomes.cancelled);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0 });
    const stalled = await balancer.acquire();
    clock.advance(1_001);
    stalled.end(outcomes.cancelled);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ failed: 1 });
  });

  it('counts a call whose deadline was stalledAfterMs, even if it waited a little before it reached the endpoint', async () => {
    const { clock, resolver, balancer } = fixture();
    resolver.update('10.0.0.1');
    await balancer.ready();
    await settle();
    const stalled = await balancer.acquire();
    clock.advance(980);
    stalled.end(outcomes.cancelled);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ failed: 1 });
  });

  it('serves no call after close, and close waits for running calls', async () => {
    const { resolver, transport, balancer, clock } = fixture();
    resolver.update('10.0.0.1', '10.0.0.2');
    await balancer.ready();
    await settle();
    const lease = await balancer.acquire();
    let closed = false;
    const closing = balancer.close().then(() => {
      closed = true;
    });
    await settle();
    expect(closed).toBe(false);
    expect(balancer.pick()).toBeUndefined();
    expect(await failure(balancer.acquire())).toSatisfy(code('EVENKEEL_CLOSED'));
    expect(transport.open()).toHaveLength(1);
    lease.end(outcomes.success);
    await closing;
    expect(transport.open()).toHaveLength(0);
    expect(resolver.watchers).toBe(0);
    expect(clock.timers).toBe(0);
  });

  it('cuts what still runs when the drain timeout is over during close', async () => {
    const { clock, resolver, transport, balancer } = fixture();
    resolver.update('10.0.0.1');
    await balancer.ready();
    await settle();
    await balancer.acquire();
    const closing = balancer.close();
    await clock.advanceAsync(30_000);
    await closing;
    expect(transport.connections[0]?.closing).toBe('cut');
  });

  it('refuses invalid options with EVENKEEL_OPTION', () => {
    const good = { resolver: new FakeResolver(), transport: new FakeTransport() };
    const bad: Record<string, unknown>[] = [
      { ...good, waitTimeoutMs: '5s' },
      { ...good, maxWaiting: -1 },
      { ...good, picker: 'p2c' },
      { ...good, resolver: undefined },
      { ...good, transport: {} },
      { ...good, timeout: 5 },
      { ...good, pool: { connectTimeoutMs: Number.NaN } },
      { ...good, retry: { maxAttempts: 0 } },
      { ...good, observer: { resolved: 'yes' } },
    ];
    for (const options of bad) {
      expect(() => createBalancer(options as never), JSON.stringify(options)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });

  it('keeps nothing of 10,000 endpoints that come and go', async () => {
    const { clock, resolver, transport, balancer } = fixture();
    for (let round = 0; round < 100; round++) {
      resolver.update(
        ...Array.from({ length: 100 }, (_, i) => ({ address: `10.1.${round}.${i}`, port: 80, uid: `${round}-${i}` })),
      );
      await clock.advanceAsync(31_000);
    }
    expect(transport.connections).toHaveLength(10_000);
    expect(transport.open()).toHaveLength(100);
    expect(balancer.snapshot().endpoints).toHaveLength(100);
    await balancer.close();
    expect(transport.open()).toHaveLength(0);
    expect(clock.timers).toBe(0);
  });
});
