import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { createBalancer } from '../../../src/balancer/balancer.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { ResolveError } from '../../../src/errors.js';
import { activeHealth } from '../../../src/stage/active-health.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import { pushback } from '../../../src/stage/pushback.js';
import { slowStart } from '../../../src/stage/slow-start.js';
import { subset } from '../../../src/stage/subset.js';
import { zone } from '../../../src/stage/zone.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';
import { BalancerFixture, failure, stateOf } from '../../support/fixtures/balancer-fixture.js';

/** Nothing is left of it, and it gives nothing out. */
async function expectNothingLeft({ balancer, clock, resolver, transport }: BalancerFixture): Promise<void> {
  expect([clock.timers, resolver.watchers, transport.open().length, transport.hanging]).toEqual([0, 0, 0, 0]);
  expect(balancer.snapshot()).toMatchObject({ state: 'closed', waiting: 0, endpoints: [] });
  expect(balancer.pick()).toBeUndefined();
  expect(await failure(balancer.acquire())).toMatchObject({ code: 'EVENKEEL_CLOSED' });
  expect(await failure(balancer.ready())).toMatchObject({ code: 'EVENKEEL_CLOSED' });
  expect(await failure(balancer.run(() => {}))).toMatchObject({ code: 'EVENKEEL_CLOSED' });
}

describe('closing a balancer', () => {
  it('works for one that was never used', async () => {
    const fixture = new BalancerFixture();
    await fixture.balancer.close();
    await expectNothingLeft(fixture);
  });

  it('works in the turn its first set comes, and while it connects', async () => {
    const early = new BalancerFixture();
    early.resolver.update('10.0.0.1');
    await early.balancer.close();
    await expectNothingLeft(early);
    const connecting = new BalancerFixture();
    connecting.transport.behaviour.set('10.0.0.1:80', 'hang');
    await connecting.publish('10.0.0.1');
    expect(connecting.transport.hanging).toBe(1);
    await connecting.balancer.close();
    await expectNothingLeft(connecting);
  });

  it('works with callers waiting for an endpoint and in ready()', async () => {
    const fixture = new BalancerFixture();
    const waiting = [fixture.balancer.acquire(), fixture.balancer.run(() => {}), fixture.balancer.ready()].map(failure);
    await settle();
    await fixture.balancer.close();
    for (const caller of waiting) expect(await caller).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    await expectNothingLeft(fixture);
  });

  it('waits for calls, keeps the process alive meanwhile, and cuts them at the drain timeout', async () => {
    const fixture = new BalancerFixture({ pool: { drainTimeoutMs: 10_000 } });
    await fixture.publish('10.0.0.1');
    const lease = fixture.balancer.pick();
    const closing = fixture.balancer.close();
    expect(fixture.clock.referencedTimers).toBe(1);
    await fixture.clock.advanceAsync(9_999);
    expect(await stateOf(closing)).toBe('pending');
    await fixture.clock.advanceAsync(1);
    await closing;
    expect(fixture.transport.connections[0]?.closing).toBe('cut');
    lease?.end(outcomes.reset);
    await expectNothingLeft(fixture);
  });

  it('waits as long as calls take where drainTimeoutMs is Infinity', async () => {
    const fixture = new BalancerFixture({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    await fixture.publish('10.0.0.1');
    const lease = fixture.balancer.pick();
    const closing = fixture.balancer.close();
    await fixture.clock.advanceAsync(86_400_000);
    expect(await stateOf(closing)).toBe('pending');
    lease?.end(outcomes.success);
    await closing;
    await expectNothingLeft(fixture);
  });

  it.each([
    ['activeHealth', activeHealth()],
    ['outlierEjection', outlierEjection()],
    ['panic', panic()],
    ['pushback', pushback()],
    ['slowStart', slowStart()],
    ['subset', subset({ client: 'me' })],
    ['zone', zone({ zone: 'a' })],
  ])('leaves no timer of the stage %s, also when calls fail and end later', async (_name, stage) => {
    const fixture = new BalancerFixture({ stages: [stage] });
    await fixture.publish({ address: '10.0.0.1', port: 80, zone: 'a' });
    await fixture.publish(
      { address: '10.0.0.1', port: 80, zone: 'a' },
      ...[2, 3, 4].map((host) => ({ address: `10.0.0.${host}`, port: 80, zone: 'b' })),
    );
    const leases = Array.from({ length: 60 }, () => fixture.balancer.pick());
    for (const lease of leases.splice(0, 40)) lease?.end({ ...outcomes.overload, retryAfterMs: 1_000 });
    await fixture.clock.advanceAsync(1_000);
    const closing = fixture.balancer.close();
    for (const lease of leases) lease?.end({ ...outcomes.overload, retryAfterMs: 1_000 });
    await closing;
    await expectNothingLeft(fixture);
  });

  it('waits for a connection that its transport delivers although the attempt was called off', async () => {
    const fake = new FakeTransport();
    let goesOn = (): void => {};
    const fixture = new BalancerFixture({
      transport: {
        // Like a transport whose socket has just connected when the balancer closes: it no longer looks at its signal.
        async connect(endpoint) {
          await new Promise<void>((resolve) => {
            goesOn = resolve;
          });
          return fake.connect(endpoint, new AbortController().signal);
        },
      },
    });
    await fixture.publish('10.0.0.1');
    goesOn();
    await fixture.balancer.close();
    expect([fake.connections.length, fake.open().length]).toEqual([1, 0]);
    await expectNothingLeft(fixture);
  });

  it('waits for a transport that goes on connecting, keeps the process alive meanwhile, but no longer than 5 s', async () => {
    const transport = { connect: () => new Promise<never>(() => {}) };
    const fixture = new BalancerFixture({ transport, pool: { drainTimeoutMs: 1_000 } });
    await fixture.publish('10.0.0.1');
    const closing = fixture.balancer.close();
    await fixture.clock.advanceAsync(4_999);
    expect(fixture.clock.referencedTimers).toBe(1);
    expect(await stateOf(closing)).toBe('pending');
    await fixture.clock.advanceAsync(1);
    await closing;
    await expectNothingLeft(fixture);
  });

  it('can be done by its own transport, while that begins to connect', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      transport: {
        connect(endpoint, signal) {
          void fixture.balancer.close();
          return fixture.transport.connect(endpoint, signal);
        },
      },
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await fixture.balancer.close();
    await expectNothingLeft(fixture);
  });

  it('is the same when called twice', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const first = fixture.balancer.close();
    expect(fixture.balancer.close()).toBe(first);
    await first;
    await fixture.balancer.close();
    await fixture.balancer.close({ signal: AbortSignal.abort() });
    await expectNothingLeft(fixture);
  });

  it.each(['the first', 'the second'])('cuts running calls when the signal of %s close aborts', async (which) => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    fixture.balancer.pick();
    const controller = new AbortController();
    const other = new AbortController();
    const signals = which === 'the first' ? [controller, other] : [other, controller];
    const closings = signals.map(({ signal }) => fixture.balancer.close({ signal }));
    await settle();
    expect(fixture.transport.connections[0]?.closing).toBe('no');
    controller.abort();
    await Promise.all(closings);
    expect(fixture.transport.connections[0]?.closing).toBe('cut');
    for (const { signal } of signals) expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await expectNothingLeft(fixture);
  });

  it('cuts at once with an aborted signal, also at the second call', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    fixture.balancer.pick();
    const first = fixture.balancer.close();
    expect(await stateOf(first)).toBe('pending');
    await fixture.balancer.close({ signal: AbortSignal.abort() });
    await first;
    await expectNothingLeft(fixture);
  });

  it('leaves no listener on a signal that outlives it', async () => {
    const { signal } = new AbortController();
    for (let round = 0; round < 20; round++) {
      const fixture = new BalancerFixture();
      await fixture.publish('10.0.0.1');
      await fixture.balancer.close({ signal });
      await fixture.balancer.close({ signal });
      await settle();
    }
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('happens at the end of an `await using` block', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    {
      await using balancer = fixture.balancer;
      expect(balancer.pick()).toBeDefined();
      await fixture.clock.advanceAsync(0);
      void balancer.close({ signal: AbortSignal.abort() });
    }
    await expectNothingLeft(fixture);
  });

  it('ignores a resolver that keeps publishing', async () => {
    let listener: { update(endpoints: never[]): void; fail(error: ResolveError): void; fresh(): void } | undefined;
    const fixture = new BalancerFixture({
      resolver: {
        name: 'talkative',
        watch: (given) => {
          listener = given;
          return { refresh: () => {}, close: () => {} };
        },
      },
    });
    let events = 0;
    await fixture.balancer.close();
    listener?.update([]);
    listener?.fail(new ResolveError('late'));
    listener?.fresh();
    events += fixture.clock.timers;
    expect(events).toBe(0);
    expect(fixture.balancer.snapshot()).toMatchObject({ version: 0, staleForMs: 0 });
    await expectNothingLeft(fixture);
  });

  it('completes when the resolver, a stage and a connection throw', async () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    const fixture = new BalancerFixture({
      resolver: {
        name: 'broken',
        watch: (listener) => {
          queueMicrotask(() => listener.update([]));
          return { refresh: broken, close: broken };
        },
      },
      stages: [() => ({ apply: (set) => set, close: broken })],
    });
    await settle();
    await fixture.balancer.close();
    expect(fixture.warnings).toEqual(['the resolver threw at close', 'a stage threw when it was closed']);
    await expectNothingLeft(fixture);
  });

  it('is not needed after a failed start: nothing was left', () => {
    const fixture = new BalancerFixture();
    let closed = 0;
    const stage = () => ({ apply: (set: never) => set, close: () => closed++ });
    const brokenStage = (): never => {
      throw new Error('no stage');
    };
    const parts = { transport: fixture.transport, clock: fixture.clock };
    expect(() => createBalancer({ ...parts, resolver: fixture.resolver, stages: [stage, stage, brokenStage] })).toThrow(
      'no stage',
    );
    expect(closed).toBe(2);
    const brokenResolver = {
      name: 'broken',
      watch: (): never => {
        throw new Error('no watch');
      },
    };
    expect(() => createBalancer({ ...parts, resolver: brokenResolver, stages: [stage] })).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_RESOLVE', message: 'the resolver broken did not start: no watch' }),
    );
    expect(closed).toBe(3);
    expect(fixture.clock.timers).toBe(0);
  });
});
