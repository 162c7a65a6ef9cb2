import { describe, expect, it } from 'vitest';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { ResolveError } from '../../../src/errors.js';
import type { ObserverEvents } from '../../../src/observe/observer.js';
import type { Resolution, Resolver, ResolverListener } from '../../../src/resolver/resolver.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

type Failed = ObserverEvents['resolveFailed'];

describe('the set from the resolver', () => {
  it('W15: is kept without a time limit, stale with its age, until it is confirmed', async () => {
    const recovered: number[] = [];
    const fixture = new BalancerFixture({
      observer: { resolveRecovered: ({ staleForMs }) => recovered.push(staleForMs) },
    });
    await fixture.publish('10.0.0.1');
    fixture.resolver.fail(new ResolveError('no answer'));
    await fixture.clock.advanceAsync(86_400_000);
    expect(fixture.balancer.snapshot()).toMatchObject({
      state: 'ready',
      staleForMs: 86_400_000,
      resolveError: 'no answer',
    });
    fixture.resolver.fail(new ResolveError('still none'));
    expect(fixture.balancer.snapshot().staleForMs).toBe(86_400_000);
    fixture.resolver.fresh();
    fixture.resolver.fresh();
    expect(fixture.balancer.snapshot()).toMatchObject({ staleForMs: 0 });
    expect(fixture.balancer.snapshot()).not.toHaveProperty('resolveError');
    expect(recovered).toEqual([86_400_000]);
  });

  it('W15: is fresh when a new one comes', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    fixture.resolver.fail(new ResolveError('no answer'));
    await fixture.publish('10.0.0.2');
    expect(fixture.balancer.snapshot()).toMatchObject({ staleForMs: 0, version: 2 });
  });

  it('has each kind of failure reported once, until it is over', async () => {
    const told: Failed[] = [];
    const fixture = new BalancerFixture({ observer: { resolveFailed: (event) => told.push(event) } });
    for (let attempt = 0; attempt < 50; attempt++) fixture.resolver.fail(new ResolveError('no answer'));
    fixture.resolver.fail(new ResolveError('refused'));
    fixture.resolver.fail(new ResolveError('refused', { code: 'EVENKEEL_FORBIDDEN' }));
    expect(told.map(({ stale }) => stale)).toEqual([false, false, false]);
    await fixture.publish('10.0.0.1');
    fixture.resolver.fail(new ResolveError('refused', { code: 'EVENKEEL_FORBIDDEN' }));
    expect(told).toHaveLength(4);
    expect(told[3]?.stale).toBe(true);
  });

  it.each([
    [new Error('no route'), 'custom: no route'],
    ['words', 'custom: words'],
    [undefined, 'custom: '],
    [null, 'custom: '],
  ])('has every failure reported to everybody as a ResolveError, even if it is %o', async (reason, message) => {
    const fixture = new BalancerFixture({
      resolver: {
        name: 'custom',
        watch: (listener) => {
          queueMicrotask(() => listener.fail(reason as never));
          return { refresh() {}, close() {} };
        },
      },
      startTimeoutMs: 100,
    });
    const ready = failure(fixture.balancer.ready());
    await fixture.clock.advanceAsync(100);
    const expected = { code: 'EVENKEEL_RESOLVE', permanent: false, message: expect.stringContaining(message) };
    expect(await ready).toMatchObject(expected);
    expect(fixture.balancer.snapshot().resolveError).toContain(message);
  });

  it('lets no permanent failure end a balancer once there is one', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    fixture.resolver.fail(new ResolveError('not any more', { code: 'EVENKEEL_FORBIDDEN', permanent: true }));
    await fixture.balancer.ready();
    expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
  });

  it('keeps the reason why it is empty, which every call gets', async () => {
    const told: (string | undefined)[] = [];
    let publish: ResolverListener['update'] = () => {};
    const resolver: Resolver = {
      name: 'custom',
      watch: ({ update }) => {
        publish = update;
        return { refresh() {}, close() {} };
      },
    };
    const fixture = new BalancerFixture({ resolver, observer: { resolved: ({ reason }) => told.push(reason) } });
    publish([], 'custom: nobody is here');
    await settle();
    for (let call = 0; call < 3; call++) {
      expect(await failure(fixture.balancer.acquire())).toMatchObject({
        code: 'EVENKEEL_NO_ENDPOINTS',
        message: 'custom: it has no endpoint; nobody is here',
      });
    }
    publish([]);
    await settle();
    expect(await failure(fixture.balancer.acquire())).toMatchObject({ message: 'custom: it has no endpoint' });
    publish([createEndpoint({ address: '10.0.0.1', port: 80 })], 'not empty');
    publish([], 1 as never);
    await settle();
    expect(told).toEqual(['custom: nobody is here', undefined, undefined, undefined]);
  });

  it('is looked up again when calls find it empty, whether they fail or wait', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish();
    await failure(fixture.balancer.acquire());
    await failure(fixture.balancer.run(() => undefined));
    expect(fixture.resolver.refreshes).toBe(2);
    await fixture.publish('10.0.0.1');
    await fixture.addresses(3);
    expect(fixture.resolver.refreshes).toBe(2);

    const patient = new BalancerFixture({ waitForEndpoints: true });
    await patient.publish();
    const waiting = patient.balancer.acquire();
    await settle();
    expect(patient.resolver.refreshes).toBe(1);
    await patient.publish('10.0.0.1');
    (await waiting).end(outcomes.success);
  });

  it('is looked up again when connections are lost', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    fixture.transport.connections[0]?.end(new Error('reset'));
    await fixture.clock.advanceAsync(0);
    expect(fixture.resolver.refreshes).toBe(1);
  });
  it.each<[string, readonly string[], readonly string[], number, number]>([
    ['to the only one for 5 s', ['10.0.0.1'], ['10.0.0.1'], 5_000, 0],
    ['to two of three for 5 s', ['10.0.0.1', '10.0.0.2', '10.0.0.3'], ['10.0.0.1', '10.0.0.2'], 5_000, 0],
    ['to one of two for 30 s', ['10.0.0.1', '10.0.0.2'], ['10.0.0.2'], 30_000, 0],
  ])(
    'W10: the resolver is told since when connections have failed %s',
    async (_what, all, failing, afterMs, sinceMs) => {
      const told: [atMs: number, sinceMs: number, reachesNone: boolean | undefined][] = [];
      let publish: ResolverListener['update'] = () => {};
      const resolver: Resolver = {
        name: 'custom',
        watch: ({ update }) => {
          publish = update;
          const refresh: Resolution['refresh'] = (since, none) => {
            if (since !== undefined) told.push([fixture.clock.now(), since, none]);
          };
          return { refresh, close() {} };
        },
      };
      const fixture = new BalancerFixture({ resolver });
      for (const address of failing) fixture.transport.behaviour.set(`${address}:80`, 'refuse');
      const startMs = fixture.clock.now();
      publish(all.map((address) => createEndpoint({ address, port: 80 })));
      for (let second = 0; second < 40; second++) await fixture.clock.advanceAsync(1_000);
      const [atMs = 0, since = 0, reachesNone] = told[0] ?? [];
      expect(reachesNone).toBe(failing.length === all.length);
      expect(since - startMs).toBe(sinceMs);
      expect(atMs - startMs).toBeGreaterThanOrEqual(afterMs);
      // The next attempt after that time: pauses are at most 3 s, and 20 % more.
      expect(atMs - startMs).toBeLessThan(afterMs + 3_600);
      for (const address of failing) fixture.transport.behaviour.set(`${address}:80`, 'accept');
      await fixture.clock.advanceAsync(4_000);
      told.length = 0;
      for (const address of failing) for (const one of fixture.transport.open(address)) one.end(new Error('reset'));
      await fixture.clock.advanceAsync(4_000);
      expect(told).toEqual([]);
    },
  );
});
