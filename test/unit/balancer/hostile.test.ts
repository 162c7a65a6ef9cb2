import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Lease } from '../../../src/call/lease.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { isEvenkeelError } from '../../../src/errors.js';
import { fixed } from '../../../src/limit/fixed.js';
import type { Limit, LimitFactory } from '../../../src/limit/limit.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { p2c } from '../../../src/picker/p2c.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import type { Resolver } from '../../../src/resolver/resolver.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const broken = (): never => {
  throw new Error('broken');
};

type Ended = Lease<unknown> | undefined;

const unhandled: unknown[] = [];
const note = (reason: unknown): void => {
  unhandled.push(reason);
};
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
  process.on('uncaughtException', note);
});
afterEach(async () => {
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', note);
  process.off('uncaughtException', note);
  expect(unhandled).toEqual([]);
});

describe('a balancer that is closed while its picker is created or used', () => {
  /** It has a call running, and picks nothing more; once that has ended it closes. */
  async function expectClosed({ balancer, clock, transport }: BalancerFixture, running: Ended): Promise<void> {
    expect(balancer.snapshot().state).toBe('closed');
    expect(balancer.pick()).toBeUndefined();
    running?.end(outcomes.success);
    await balancer.close();
    expect([clock.timers, transport.open().length]).toEqual([0, 0]);
  }

  it('by the observer that is told that the factory threw', async () => {
    let breaks = false;
    const fixture: BalancerFixture = new BalancerFixture({
      picker: (set, previous, context) => (breaks ? broken() : roundRobin()(set, previous, context)),
      observer: { warned: () => void fixture.balancer.close() },
    });
    await fixture.publish('10.0.0.1');
    const running = fixture.balancer.pick();
    breaks = true;
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await expectClosed(fixture, running);
  });

  it('by the factory', async () => {
    let closes = false;
    const fixture: BalancerFixture = new BalancerFixture({
      picker: (set, previous, context) => {
        if (closes) void fixture.balancer.close();
        return roundRobin()(set, previous, context);
      },
    });
    await fixture.publish('10.0.0.1');
    const running = fixture.balancer.pick();
    closes = true;
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await expectClosed(fixture, running);
  });

  it('by the observer that is told that `ended` threw', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      picker: (set) => ({ pick: () => set.targets[0], ended: broken }),
      observer: { warned: () => void fixture.balancer.close() },
    });
    await fixture.publish('10.0.0.1');
    const running = fixture.balancer.pick();
    fixture.balancer.pick()?.end(outcomes.success);
    await expectClosed(fixture, running);
  });

  it('by `ended`, which then throws', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      picker: (set) => ({
        pick: () => set.targets[0],
        ended: () => {
          void fixture.balancer.close();
          broken();
        },
      }),
    });
    await fixture.publish('10.0.0.1');
    const running = fixture.balancer.pick();
    fixture.balancer.pick()?.end(outcomes.success);
    await expectClosed(fixture, running);
  });

  it.each(['track', 'load'])('by the %s created for a new endpoint', async (which) => {
    const closeAt = (address: string): void => {
      if (address === '10.0.0.2') void fixture.balancer.close();
    };
    let latest = '';
    const fixture: BalancerFixture = new BalancerFixture({
      load: () => {
        if (which === 'load') closeAt(latest);
        return inFlight()();
      },
      stages: [
        () => ({
          apply: (set) => {
            latest = set.entries.at(-1)?.endpoint.address ?? '';
            return set;
          },
          track: ({ address }) => {
            if (which === 'track') closeAt(address);
            return {};
          },
        }),
      ],
    });
    await fixture.publish('10.0.0.1');
    const running = fixture.balancer.pick();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await expectClosed(fixture, running);
  });
});

describe('a pick during another pick', () => {
  it('by an observer, keeps the endpoints that the other avoids', async () => {
    let breaks = false;
    let place = 0;
    const fixture: BalancerFixture = new BalancerFixture({
      picker: (set) => ({ pick: () => (breaks ? broken() : set.targets[place]) }),
      observer: { warned: () => void fixture.balancer.pick({ avoid: new Set() })?.end(outcomes.success) },
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    const busy = [1, 2, 3].map(() => fixture.balancer.pick());
    place = 1;
    const idle = fixture.balancer.pick();
    idle?.end(outcomes.success);
    breaks = true;
    const picked = fixture.balancer.pick({ avoid: new Set([idle?.subchannel as never]) });
    expect(picked?.endpoint).toBe(busy[0]?.endpoint);
  });

  it('by the factory that creates the picker after the first calls, keeps the key of the other', async () => {
    const keys: (string | undefined)[] = [];
    let picks = false;
    const fixture: BalancerFixture = new BalancerFixture({
      picker: (set) => {
        if (picks) {
          picks = false;
          fixture.balancer.pick({ key: 'of the factory' });
        }
        return {
          pick: ({ key }) => {
            keys.push(key);
            return set.targets[0];
          },
        };
      },
    });
    fixture.balancer.pick();
    fixture.balancer.pick();
    fixture.resolver.update('10.0.0.1', '10.0.0.2', '10.0.0.3');
    await fixture.clock.advanceAsync(100);
    // The first two calls go to the first two endpoints; then there is a new picker.
    fixture.balancer.pick({ key: 'first' });
    fixture.balancer.pick({ key: 'second' });
    picks = true;
    fixture.balancer.pick({ key: 'third' });
    expect(picks).toBe(false);
    expect(keys.slice(-2)).toEqual(['of the factory', 'third']);
  });
});

describe('invalid options for a call', () => {
  it.each([[[]], [5], [{}]])('avoid: %o fails that call, and does not replace the picker', async (avoid) => {
    const fixture = new BalancerFixture({ picker: p2c() });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    expect(await failure(fixture.balancer.acquire({ avoid: avoid as never }))).toMatchObject({
      code: 'EVENKEEL_OPTION',
    });
    expect(fixture.warnings).toEqual([]);
  });

  it.each(['timeoutMs', 'deadlineMs'])(
    '%s is checked even while an endpoint is free, and does not count as refused',
    async (name) => {
      const fixture = new BalancerFixture();
      await fixture.publish('10.0.0.1');
      expect(await failure(fixture.balancer.acquire({ [name]: Number.NaN }))).toMatchObject({
        code: 'EVENKEEL_OPTION',
      });
      expect(fixture.balancer.snapshot().counts).toMatchObject({ picks: 0, refused: 0 });
    },
  );

  it.each([[5], [{}], ['soon'], [null]])('signal: %o is refused by everything that accepts a signal', async (given) => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const { balancer } = fixture;
    const signal = given as never;
    for (const call of [
      balancer.acquire({ signal }),
      balancer.run(() => {}, { signal }),
      balancer.run(() => {}, { signal, deadlineMs: 50 }),
      balancer.ready({ signal }),
      balancer.close({ signal }),
    ]) {
      expect(await failure(call)).toMatchObject({ code: 'EVENKEEL_OPTION', message: /signal must be an AbortSignal/ });
    }
    expect(balancer.snapshot().state).toBe('ready');
  });
});

describe('a limit that breaks', () => {
  const limitWith = (name: 'max' | 'shedAfterMs' | 'leastMs', read: () => unknown): LimitFactory => {
    return () => Object.defineProperty({ ...fixed(1)() }, name, { get: read }) as Limit;
  };

  it.each(['max', 'shedAfterMs', 'leastMs'] as const)('(%s throws) limits no call', async (name) => {
    let breaks = false;
    const right = fixed(1)()[name];
    const fixture = new BalancerFixture({ limit: limitWith(name, () => (breaks ? broken() : right)) });
    await fixture.publish('10.0.0.1');
    const first = fixture.balancer.pick();
    const second = fixture.balancer.acquire({ deadlineMs: 60_000 });
    await settle();
    breaks = true;
    first?.end(outcomes.success);
    (await second).end(outcomes.success);
    expect(await fixture.addresses(2)).toHaveLength(2);
    expect(fixture.balancer.snapshot().limit?.running).toBe(0);
    expect(fixture.warnings).toEqual(['a limit threw']);
  });

  it.each([[Number.NaN], [undefined], ['many']])('(max is %o) limits no call', async (max) => {
    const fixture = new BalancerFixture({ limit: limitWith('max', () => max) });
    await fixture.publish('10.0.0.1');
    expect([fixture.balancer.pick(), fixture.balancer.pick()]).not.toContain(undefined);
    expect(fixture.warnings).toEqual(['a limit threw']);
  });
});

describe('a function that is async by mistake, and rejects, ends no process:', () => {
  const rejecting = async (): Promise<never> => broken();

  it('those of a load', async () => {
    const methods = { start: rejecting, end: rejecting, reported: rejecting };
    const fixture = new BalancerFixture({ load: () => ({ decays: false, value: () => 1, ...methods }) as never });
    await fixture.publish('10.0.0.1');
    fixture.balancer.pick()?.end({ ...outcomes.success, report: { utilization: 0.5 } } as never);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, started: 1 });
  });

  it('those of a limit', async () => {
    const methods = { answered: rejecting, gaveUp: rejecting, overloaded: rejecting };
    const fixture = new BalancerFixture({ limit: () => ({ ...fixed(1)(), ...methods }) as never });
    await fixture.publish('10.0.0.1');
    for (const outcome of [outcomes.success, outcomes.timeout, outcomes.overload])
      fixture.balancer.pick()?.end(outcome);
    expect(fixture.balancer.snapshot().limit?.running).toBe(0);
  });

  it('those of a resolution', async () => {
    const resolver = new FakeResolver();
    const watch: Resolver['watch'] = (listener) => {
      resolver.watch(listener);
      return { refresh: rejecting, close: rejecting } as never;
    };
    const fixture = new BalancerFixture({ resolver: { name: 'r', watch } });
    resolver.update();
    await settle();
    expect(await failure(fixture.balancer.acquire())).toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    await fixture.balancer.close();
  });

  it('those of a connection whose endpoint leaves and returns', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      transport: {
        connect: async (endpoint, signal) =>
          Object.assign(await fixture.transport.connect(endpoint, signal), { left: rejecting, returned: rejecting }),
      },
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    await fixture.publish('10.0.0.1');
    await fixture.publish('10.0.0.1', '10.0.0.2');
    expect(fixture.balancer.snapshot().endpoints.map(({ state }) => state)).toEqual(['ready', 'ready']);
  });

  it('`watchCapacity` of a connection', async () => {
    const fixture: BalancerFixture = new BalancerFixture({
      transport: {
        connect: async (endpoint, signal) =>
          Object.assign(await fixture.transport.connect(endpoint, signal), { watchCapacity: rejecting }),
      },
    });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.pick()).toBeDefined();
  });

  it('`retry.when`', async () => {
    const fixture = new BalancerFixture({ retry: { when: rejecting as never } });
    await fixture.publish('10.0.0.1');
    const fails = fixture.balancer.run(broken, { idempotent: true, classify: () => outcomes.reset });
    expect(await failure(fails)).toMatchObject({ message: 'broken' });
    expect(fixture.warnings).toEqual(['retry.when threw, or returned neither true nor false']);
  });

  it('`classify`', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const fails = fixture.balancer.run(broken, { classify: rejecting as never });
    expect(await failure(fails)).toMatchObject({ message: 'broken' });
  });

  it.each([
    ['load', { load: rejecting }],
    ['limit', { limit: rejecting }],
    ['stages', { stages: [rejecting] }],
    ['resolver', { resolver: { name: 'r', watch: rejecting } }],
  ])('what makes `%s`: it is an invalid option', (_name, options) => {
    expect(() => new BalancerFixture(options as never)).toThrow(
      expect.toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OPTION')),
    );
  });
});

describe('a connection that is incomplete', () => {
  /** A balancer whose connections have these properties. */
  const fixtureWith = (properties: object): BalancerFixture => {
    const fixture: BalancerFixture = new BalancerFixture({
      transport: {
        connect: async (endpoint, signal) =>
          Object.defineProperties(
            await fixture.transport.connect(endpoint, signal),
            Object.getOwnPropertyDescriptors(properties),
          ),
      },
    });
    return fixture;
  };

  it('(watchCapacity throws) is asked for its capacity at each pick', async () => {
    const fixture = fixtureWith({ watchCapacity: broken, capacity: 1 });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.pick()).toBeDefined();
    expect(fixture.balancer.pick()).toBeUndefined();
    Object.assign(fixture.transport.connections[0] as object, { capacity: 2 });
    expect(fixture.balancer.pick()).toBeDefined();
    expect(fixture.warnings).toEqual(['a connection threw in watchCapacity()']);
  });

  it('(it is watched, and reading its capacity throws) gets no call', async () => {
    const fixture = fixtureWith({
      watchCapacity: () => {},
      get capacity() {
        return broken();
      },
    });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ state: 'ready', capacity: -1 });
    expect(fixture.balancer.pick()).toBeUndefined();
  });

  it.each(['leaving', 'outdated'])('(%s is no promise) is a failed attempt', async (name) => {
    const fixture = fixtureWith({ [name]: true });
    await fixture.publish('10.0.0.1');
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({
      state: 'backoff',
      lastError: expect.stringContaining(`one without ${name} (a promise)`),
    });
  });
});

describe('a stage with errors', () => {
  it.each([[null], [5], ['x']])('(track returns %o) tracks nothing', async (tracker) => {
    const fixture = new BalancerFixture({ stages: [() => ({ apply: (set) => set, track: () => tracker as never })] });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(1)).toHaveLength(1);
  });

  it('(ignoresSuccess throws) is notified of every call', async () => {
    let told = 0;
    const tracker = Object.defineProperty({ completed: () => told++ }, 'ignoresSuccess', { get: broken });
    const fixture = new BalancerFixture({ stages: [() => ({ apply: (set) => set, track: () => tracker })] });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(3)).toHaveLength(3);
    expect(told).toBe(3);
  });
});

describe('a picker that is incomplete', () => {
  it.each([[undefined], [null], [{}]])('(%o) is replaced by p2c', async (picker) => {
    const fixture = new BalancerFixture({ picker: () => picker as never });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(1)).toHaveLength(1);
    expect(fixture.warnings).toEqual(['the picker threw; p2c replaces it']);
  });

  it('(`ended` throws when it is read) is replaced by p2c', async () => {
    const picker = Object.defineProperty({ pick: broken }, 'ended', { get: broken });
    const fixture = new BalancerFixture({ picker: () => picker as never });
    await fixture.publish('10.0.0.1');
    fixture.balancer.pick()?.end(outcomes.success);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, started: 1 });
  });
});

describe('a balancer that cannot be created', () => {
  it.each([[undefined], [null], [Promise.resolve()], [{}]])('(watch returns %o) says so', (resolution) => {
    const create = (): unknown => new BalancerFixture({ resolver: { name: 'r', watch: () => resolution as never } });
    expect(create).toThrow(/resolver\.watch\(\) must be an object with refresh and close, got/);
  });

  it('(watch throws after it published a set) leaves nothing running', async () => {
    const clock = new FakeClock();
    const transport = new FakeTransport();
    const heard: string[] = [];
    const create = (): unknown =>
      new BalancerFixture({
        clock,
        transport,
        resolver: {
          name: 'r',
          watch: (listener) => {
            listener.update([createEndpoint({ address: '10.0.0.1', port: 80 })]);
            setImmediate(() => listener.update([]));
            return broken();
          },
        },
        observer: { resolved: () => heard.push('a set') },
      });
    expect(create).toThrow('broken');
    await settle();
    await new Promise((resolve) => setImmediate(resolve));
    await settle();
    expect([clock.timers, transport.attempts.length, heard]).toEqual([0, 0, ['a set']]);
  });

  it.each(['stage', 'limit'])('(its %s throws) throws the same', (which) => {
    let made = 0;
    const create = (): unknown =>
      new BalancerFixture(
        which === 'stage' ? { stages: [broken] } : { limit: () => (++made > 1 ? broken() : fixed(1)()) },
      );
    expect(create).toThrow('broken');
  });
});
