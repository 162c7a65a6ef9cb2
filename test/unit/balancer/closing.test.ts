import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { createBalancer } from '../../../src/balancer/balancer.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { ResolveError } from '../../../src/errors.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { BalancerHouse, failure, standing } from '../../support/balancer-house.js';

/** Nothing is left of it, and it gives nothing out. */
async function expectNothingLeft({ balancer, clock, resolver, transport }: BalancerHouse): Promise<void> {
  expect([clock.timers, resolver.watchers, transport.open().length, transport.hanging]).toEqual([0, 0, 0, 0]);
  expect(balancer.snapshot()).toMatchObject({ state: 'closed', waiting: 0, endpoints: [] });
  expect(balancer.pick()).toBeUndefined();
  expect(await failure(balancer.acquire())).toMatchObject({ code: 'EVENKEEL_CLOSED' });
  expect(await failure(balancer.ready())).toMatchObject({ code: 'EVENKEEL_CLOSED' });
  expect(await failure(balancer.run(() => {}))).toMatchObject({ code: 'EVENKEEL_CLOSED' });
}

describe('closing a balancer', () => {
  it('that was never used', async () => {
    const house = new BalancerHouse();
    await house.balancer.close();
    await expectNothingLeft(house);
  });

  it('in the turn its first set comes, and while it connects', async () => {
    const early = new BalancerHouse();
    early.resolver.update('10.0.0.1');
    await early.balancer.close();
    await expectNothingLeft(early);
    const connecting = new BalancerHouse();
    connecting.transport.behaviour.set('10.0.0.1:80', 'hang');
    await connecting.publish('10.0.0.1');
    expect(connecting.transport.hanging).toBe(1);
    await connecting.balancer.close();
    await expectNothingLeft(connecting);
  });

  it('with callers waiting for an endpoint and for the start', async () => {
    const house = new BalancerHouse();
    const waiting = [house.balancer.acquire(), house.balancer.run(() => {}), house.balancer.ready()].map(failure);
    await settle();
    await house.balancer.close();
    for (const caller of waiting) expect(await caller).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    await expectNothingLeft(house);
  });

  it('waits for calls, keeps the process meanwhile, and cuts them at the drain time-out', async () => {
    const house = new BalancerHouse({ pool: { drainTimeoutMs: 10_000 } });
    await house.publish('10.0.0.1');
    const lease = house.balancer.pick();
    const closing = house.balancer.close();
    expect(house.clock.referencedTimers).toBe(1);
    await house.clock.advanceAsync(9_999);
    expect(await standing(closing)).toBe('pending');
    await house.clock.advanceAsync(1);
    await closing;
    expect(house.transport.connections[0]?.closing).toBe('cut');
    lease?.end(outcomes.reset);
    await expectNothingLeft(house);
  });

  it('waits as long as calls take where drainTimeoutMs is Infinity', async () => {
    const house = new BalancerHouse({ pool: { drainTimeoutMs: Number.POSITIVE_INFINITY } });
    await house.publish('10.0.0.1');
    const lease = house.balancer.pick();
    const closing = house.balancer.close();
    await house.clock.advanceAsync(86_400_000);
    expect(await standing(closing)).toBe('pending');
    lease?.end(outcomes.success);
    await closing;
    await expectNothingLeft(house);
  });

  it('twice is once', async () => {
    const house = new BalancerHouse();
    await house.publish('10.0.0.1');
    const first = house.balancer.close();
    expect(house.balancer.close()).toBe(first);
    await first;
    await house.balancer.close();
    await house.balancer.close({ signal: AbortSignal.abort() });
    await expectNothingLeft(house);
  });

  it.each(['the first', 'the second'])('cuts what runs when the signal of %s close aborts', async (which) => {
    const house = new BalancerHouse();
    await house.publish('10.0.0.1');
    house.balancer.pick();
    const controller = new AbortController();
    const other = new AbortController();
    const signals = which === 'the first' ? [controller, other] : [other, controller];
    const closings = signals.map(({ signal }) => house.balancer.close({ signal }));
    await settle();
    expect(house.transport.connections[0]?.closing).toBe('no');
    controller.abort();
    await Promise.all(closings);
    expect(house.transport.connections[0]?.closing).toBe('cut');
    for (const { signal } of signals) expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await expectNothingLeft(house);
  });

  it('cuts at once with a signal that has aborted before, also the second time', async () => {
    const house = new BalancerHouse();
    await house.publish('10.0.0.1');
    house.balancer.pick();
    const first = house.balancer.close();
    expect(await standing(first)).toBe('pending');
    await house.balancer.close({ signal: AbortSignal.abort() });
    await first;
    await expectNothingLeft(house);
  });

  it('leaves no listener on a signal that outlives it', async () => {
    const { signal } = new AbortController();
    for (let round = 0; round < 20; round++) {
      const house = new BalancerHouse();
      await house.publish('10.0.0.1');
      await house.balancer.close({ signal });
      await house.balancer.close({ signal });
      await settle();
    }
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('happens at the end of an `await using` block', async () => {
    const house = new BalancerHouse();
    await house.publish('10.0.0.1');
    {
      await using balancer = house.balancer;
      expect(balancer.pick()).toBeDefined();
      await house.clock.advanceAsync(0);
      void balancer.close({ signal: AbortSignal.abort() });
    }
    await expectNothingLeft(house);
  });

  it('hears nothing more of a resolver that goes on talking', async () => {
    let listener: { update(endpoints: never[]): void; fail(error: ResolveError): void; fresh(): void } | undefined;
    const house = new BalancerHouse({
      resolver: {
        name: 'talkative',
        watch: (given) => {
          listener = given;
          return { refresh: () => {}, close: () => {} };
        },
      },
    });
    let events = 0;
    await house.balancer.close();
    listener?.update([]);
    listener?.fail(new ResolveError('late'));
    listener?.fresh();
    events += house.clock.timers;
    expect(events).toBe(0);
    expect(house.balancer.snapshot()).toMatchObject({ version: 0, staleForMs: 0 });
    await expectNothingLeft(house);
  });

  it('goes on when the resolver, a stage and a connection throw at it', async () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    const house = new BalancerHouse({
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
    await house.balancer.close();
    expect(house.warnings).toEqual(['the resolver threw at close', 'a stage threw when it was closed']);
    await expectNothingLeft(house);
  });

  it('is not needed after a failed start: nothing was left', () => {
    const house = new BalancerHouse();
    let closed = 0;
    const stage = () => ({ apply: (set: never) => set, close: () => closed++ });
    const brokenStage = (): never => {
      throw new Error('no stage');
    };
    const parts = { transport: house.transport, clock: house.clock };
    expect(() => createBalancer({ ...parts, resolver: house.resolver, stages: [stage, stage, brokenStage] })).toThrow(
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
    expect(house.clock.timers).toBe(0);
  });
});
