import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createBalancer } from '../../../src/balancer/balancer.js';
import { callLease } from '../../../src/call/lease.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { ResolveError } from '../../../src/errors.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import type { Observer, ObserverEvents } from '../../../src/observe/observer.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import type { ResolverListener } from '../../../src/resolver/resolver.js';
import { staticEndpoints } from '../../../src/resolver/static.js';
import type { Stage, StageContext } from '../../../src/stage/stage.js';
import { exactStages, stagesOf } from '../../../src/stage/standard-stages.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const broken = (): never => {
  throw new Error('broken');
};

const unhandled: unknown[] = [];
const note = (reason: unknown): void => {
  unhandled.push(reason);
};
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(async () => {
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});

describe('plug-ins with errors', () => {
  it('a stage whose apply throws is skipped and reported; the others count', async () => {
    const dropSecond: Stage = { apply: (set) => set.filter(({ endpoint }) => endpoint.address !== '10.0.0.2') };
    const fixture = new BalancerFixture({ stages: [() => ({ apply: broken }), () => dropSecond] });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    expect(new Set(await fixture.addresses(10))).toEqual(new Set(['10.0.0.1', '10.0.0.3']));
    expect(fixture.warnings).toEqual(['stage 1 of 2 threw and was skipped']);
  });

  it.each([undefined, null, [], { entries: 'no' }])('a stage that returns %o is skipped', async (result) => {
    const fixture = new BalancerFixture({ stages: [() => ({ apply: () => result as never })] });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
    expect(fixture.warnings).toEqual(['stage 1 of 1 threw and was skipped']);
  });

  it.each([[null], [5], [{}], [{ endpoint: { address: 'x' }, weight: 1, suspect: false }]])(
    'a stage whose set holds %o is skipped',
    async (entry) => {
      const fixture = new BalancerFixture({
        stages: [() => ({ apply: (set) => set.withEntries([...set.entries, entry as never]) })],
      });
      await fixture.publish('10.0.0.1');
      expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
      expect(fixture.warnings).toEqual(['stage 1 of 1 threw and was skipped']);
    },
  );

  it.each([[{}], [5], [Promise.resolve()]])('a picker that picks %o is reported', async (picked) => {
    const fixture = new BalancerFixture({ picker: () => ({ pick: () => picked as never }) });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.pick()).toBeUndefined();
    expect(fixture.warnings).toEqual(['the picker returned something that is not a subchannel']);
  });

  it('a picker or a stage that is asynchronous and rejects does not end the process', async () => {
    const rejects = async (): Promise<never> => broken();
    const factory = new BalancerFixture({ picker: rejects as never });
    await factory.publish('10.0.0.1');
    expect(await factory.addresses(1)).toEqual(['10.0.0.1']);
    expect(factory.warnings).toEqual(['the picker threw; p2c replaces it']);
    const picker = new BalancerFixture({ picker: () => ({ pick: rejects as never }) });
    await picker.publish('10.0.0.1');
    expect(picker.balancer.pick()).toBeUndefined();
    expect(picker.warnings).toEqual(['the picker returned something that is not a subchannel']);
    const ended = new BalancerFixture({
      picker: (set) => ({ pick: () => set.targets[0], ended: rejects as never }),
    });
    await ended.publish('10.0.0.1');
    expect(await ended.addresses(1)).toEqual(['10.0.0.1']);
    const stage = new BalancerFixture({ stages: [() => ({ apply: rejects as never })] });
    await stage.publish('10.0.0.1');
    expect(await stage.addresses(1)).toEqual(['10.0.0.1']);
    expect(stage.warnings).toEqual(['stage 1 of 1 threw and was skipped']);
  });

  it('a weight that is not a number means standby, and spoils no comparison', async () => {
    const weights = [Number.NaN, Number.POSITIVE_INFINITY, -1, 2];
    const fixture = new BalancerFixture({
      stages: [
        () => ({
          apply: (set) => set.withEntries(set.entries.map((entry, i) => ({ ...entry, weight: weights[i] as number }))),
        }),
      ],
    });
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4');
    expect(new Set(await fixture.addresses(20))).toEqual(new Set(['10.0.0.4']));
  });

  it.each([undefined, null, 'success', 5, {}, { kind: 'banana' }])(
    'a lease that is ended with %o, which is not an outcome, frees its place and is not held against the endpoint',
    async (outcome) => {
      const fixture = new BalancerFixture();
      await fixture.publish('10.0.0.1');
      const lease = fixture.balancer.pick();
      lease?.end(outcome as never);
      expect(lease?.outcome).toEqual(outcomes.cancelled);
      lease?.end(outcomes.reset);
      expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 0 });
      expect(fixture.warnings).toEqual(['a lease was ended with something that is not an outcome']);
    },
  );

  it('a return value of classify that is not an outcome counts as a failure', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const broke = new Error('broke');
    const classify = (): never => ({ kind: 'banana' }) as never;
    expect(await failure(fixture.balancer.run(() => Promise.reject(broke), { classify }))).toBe(broke);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 1 });
  });

  it.each([Number.NaN, -5, Number.POSITIVE_INFINITY])('a latency of %d is ignored', async (ms) => {
    const fixture = new BalancerFixture({ load: peakEwma() });
    await fixture.publish('10.0.0.1');
    const lease = fixture.balancer.pick();
    fixture.clock.advance(30);
    lease?.end(outcomes.success, ms);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBe(3_000);
  });

  it.each([Number.NaN, -5, 'soon'])('a retryAfterMs of %o is ignored', async (retryAfterMs) => {
    const fixture = new BalancerFixture({ stages: stagesOf() });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    const lease = fixture.balancer.pick();
    lease?.end({ ...outcomes.overload, retryAfterMs: retryAfterMs as never });
    expect(lease && callLease(lease).subchannel.pushedBackUntilMs).toBe(0);
    expect(fixture.clock.timers).toBeLessThan(5);
    expect(fixture.balancer.snapshot().endpoints.map(({ weight }) => weight)).toEqual([1, 1]);
  });

  it('a stage whose track or tracker throws disturbs neither connections nor calls', async () => {
    const fixture = new BalancerFixture({
      stages: [
        () => ({ apply: (set) => set, track: broken }),
        () => ({
          apply: (set) => set,
          track: () => ({ connected: broken, disconnected: broken, completed: broken, closed: broken }),
        }),
      ],
    });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(3)).toHaveLength(3);
    fixture.transport.connections[0]?.end(new Error('reset'));
    await fixture.clock.advanceAsync(1_000);
    expect(await fixture.addresses(1)).toHaveLength(1);
    await fixture.publish();
    await fixture.balancer.close();
    expect(fixture.warnings).toEqual(['a stage threw in track()', 'the tracker of a stage threw']);
  });

  it('a picker factory that throws is replaced by p2c, and called again for the next picker', async () => {
    let builds = 0;
    const fixture = new BalancerFixture({
      picker: (set, previous, context) => {
        if (++builds <= 2) throw new Error('broken');
        return roundRobin()(set, previous, context);
      },
    });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(2)).toEqual(['10.0.0.1', '10.0.0.1']);
    expect(fixture.warnings).toEqual(['the picker threw; p2c replaces it']);
    await fixture.publish('10.0.0.1', '10.0.0.2');
    expect(builds).toBeGreaterThan(2);
    expect(new Set(await fixture.addresses(2)).size).toBe(2);
  });

  it('a picker that throws at pick or at the end of a call is replaced', async () => {
    const fixture = new BalancerFixture({ picker: () => ({ pick: broken }) });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.pick()?.endpoint.address).toBe('10.0.0.1');
    const other = new BalancerFixture({
      picker: (set) => ({ pick: () => set.targets[0], ended: broken }),
    });
    await other.publish('10.0.0.1');
    other.balancer.pick()?.end(outcomes.success);
    expect(await other.addresses(1)).toEqual(['10.0.0.1']);
    expect(other.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, started: 2 });
    expect(other.warnings).toEqual(['the picker threw; p2c replaces it']);
  });

  it('observers whose hooks throw or reject change nothing', async () => {
    const hooks = ['resolved', 'subchannelChanged', 'attemptEnded', 'refused', 'resolveFailed', 'resolveRecovered'];
    const observer = Object.fromEntries(
      hooks.map((event, i) => [event, i % 2 === 0 ? broken : async () => broken()]),
    ) as Observer;
    const fixture = new BalancerFixture({ observer });
    await fixture.publish('10.0.0.1');
    fixture.resolver.fail(new ResolveError('x'));
    fixture.resolver.fresh();
    expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
    await fixture.publish();
    expect(await failure(fixture.balancer.acquire())).toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    await fixture.balancer.close();
  });

  it('a resolver that calls back within watch is accepted, and one that throws at refresh is reported', async () => {
    const fixture = new BalancerFixture({
      resolver: {
        name: 'hasty',
        watch: (listener: ResolverListener) => {
          listener.fail(new ResolveError('at once', { permanent: true }));
          listener.update([createEndpoint({ address: '10.0.0.1', port: 80 })]);
          return { refresh: broken, close: () => {} };
        },
      },
    });
    await settle();
    expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
    fixture.transport.connections[0]?.end(new Error('reset'));
    await settle();
    expect(fixture.warnings).toEqual(['the resolver threw at refresh']);
  });

  it('a resolver may change its list afterwards: the balancer has its own copy', async () => {
    const list = [createEndpoint({ address: '10.0.0.1', port: 80 })];
    let invalidate = (): void => {};
    const fixture = new BalancerFixture({
      resolver: {
        name: 'careless',
        watch: (listener) => {
          queueMicrotask(() => listener.update(list));
          return { refresh: () => {}, close: () => {} };
        },
      },
      stages: [
        (context: StageContext) => {
          ({ invalidate } = context);
          return { apply: (set) => set };
        },
      ],
    });
    await settle();
    list.length = 0;
    invalidate();
    await settle();
    expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
  });

  it.each([[[{ address: '10.0.0.2', port: 80 }]], [[undefined]], ['10.0.0.2:80']])(
    'a resolver that lists %o has failed: the last set stays',
    async (list) => {
      let update = (_: never): void => {};
      const fixture = new BalancerFixture({
        resolver: {
          name: 'careless',
          watch: (listener) => {
            ({ update } = { update: (endpoints: never) => listener.update(endpoints) });
            return { refresh: () => {}, close: () => {} };
          },
        },
      });
      update([createEndpoint({ address: '10.0.0.1', port: 80 })] as never);
      await settle();
      update(list as never);
      await settle();
      expect(await fixture.addresses(1)).toEqual(['10.0.0.1']);
      expect(fixture.balancer.snapshot().resolveError).toContain('careless listed something that createEndpoint');
    },
  );

  it('a connection that throws when its capacity is read is not used', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      transport: {
        connect: async (endpoint, signal) =>
          Object.defineProperty(await fixture.transport.connect(endpoint, signal), 'capacity', { get: broken }),
      },
      waitTimeoutMs: 10,
    });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.pick()).toBeUndefined();
  });

  it('endpoints with one key are one endpoint', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.1', { address: '010.0.0.1', port: 80 });
    expect(fixture.transport.attempts).toHaveLength(1);
    expect(fixture.balancer.snapshot().endpoints).toHaveLength(1);
  });
});

describe('observers that call the balancer', () => {
  it.each(['resolved', 'subchannelChanged', 'refused', 'attemptEnded'] as const)(
    'may close the balancer from %s',
    async (event) => {
      let closing: Promise<void> | undefined;
      const fixture: BalancerFixture = new BalancerFixture({
        waitTimeoutMs: 10,
        observer: {
          [event]: () => {
            closing = fixture.balancer.close({ signal: AbortSignal.abort() });
          },
        },
      });
      const ignore = (): void => {};
      const callers = [fixture.balancer.acquire().catch(ignore), fixture.balancer.acquire().catch(ignore)];
      if (event === 'refused') await fixture.clock.advanceAsync(10);
      await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
      await fixture.balancer.run(ignore).catch(ignore);
      expect(closing).toBeDefined();
      await Promise.all([closing, ...callers]);
      expect([fixture.clock.timers, fixture.transport.open().length, fixture.resolver.watchers]).toEqual([0, 0, 0]);
    },
  );

  it('may close it in `ejected`, in the middle of the stages: nothing is opened after that', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      stages: [
        ({ observer }: StageContext) => ({
          apply: (set) => {
            observer.panicChanged?.({ panicking: true, suspects: 1, total: 1 });
            return set;
          },
        }),
      ],
      observer: {
        panicChanged: () => {
          void fixture.balancer.close();
        },
      },
    });
    await fixture.publish('10.0.0.1');
    expect(fixture.transport.attempts).toEqual([]);
    expect(await failure(fixture.balancer.ready())).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(fixture.clock.timers).toBe(0);
  });

  it('may close it while it closes: both resolve', async () => {
    const closings: Promise<void>[] = [];
    const fixture: BalancerFixture = new BalancerFixture({
      observer: {
        subchannelChanged: ({ to }) => {
          if (to === 'draining' || to === 'closed') closings.push(fixture.balancer.close());
        },
      },
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await fixture.balancer.close();
    await Promise.all(closings);
    expect(closings).toHaveLength(4);
  });

  it('may start, pick and end calls', async () => {
    const picked: (string | undefined)[] = [];
    const fixture: BalancerFixture = new BalancerFixture({
      observer: {
        subchannelChanged: () => {
          const lease = fixture.balancer.pick();
          picked.push(lease?.endpoint.address);
          lease?.end(outcomes.success);
        },
      },
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await fixture.publish('10.0.0.2');
    fixture.transport.open('10.0.0.2')[0]?.end(new Error('reset'));
    await fixture.clock.advanceAsync(1_000);
    expect(picked.length).toBeGreaterThan(4);
    expect(fixture.balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0)).toBe(true);
  });

  it('may publish a set', async () => {
    const versions: ObserverEvents['resolved']['version'][] = [];
    const fixture: BalancerFixture = new BalancerFixture({
      observer: {
        resolved: ({ version }) => {
          versions.push(version);
          if (version < 3) fixture.resolver.update(`10.0.0.${version + 1}`);
        },
      },
    });
    await fixture.publish('10.0.0.1');
    expect(versions).toEqual([1, 2, 3]);
    expect(await fixture.addresses(1)).toEqual(['10.0.0.3']);
  });
});

describe('a balancer’s own work', () => {
  it('does not run in the async context of the request in which it was created', async () => {
    const request = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const fake = new FakeTransport();
    const balancer = await request.run('a request', async () => {
      const made = createBalancer({
        resolver: {
          name: 'watched',
          watch: (listener, context) => {
            seen.push(request.getStore());
            return staticEndpoints([{ address: '10.0.0.1', port: 80 }]).watch(listener, context);
          },
        },
        stages: exactStages([]),
        transport: {
          connect: (endpoint, signal) => {
            seen.push(request.getStore());
            return fake.connect(endpoint, signal);
          },
        },
      });
      await made.ready();
      expect(request.getStore()).toBe('a request');
      return made;
    });
    expect(seen).toEqual([undefined, undefined]);
    await balancer.close();
  });

  it('completes a snapshot even if the capacity of a connection or a load throws', async () => {
    const load = () => ({ decays: false, start: () => {}, end: () => {}, value: broken });
    const fixture = new BalancerFixture({ load });
    await fixture.publish('10.0.0.1');
    Object.defineProperty(fixture.transport.connections[0], 'capacity', { get: broken });
    expect(fixture.balancer.snapshot().endpoints).toMatchObject([{ address: '10.0.0.1:80', capacity: -1, load: -1 }]);
  });
});
