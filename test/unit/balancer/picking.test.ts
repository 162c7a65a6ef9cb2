import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { p2c } from '../../../src/picker/p2c.js';
import { rotatingAperture } from '../../../src/picker/rotating-aperture.js';
import type { Transport } from '../../../src/pool/transport.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { bytesPerCall } from '../../support/allocation.js';
import { BalancerFixture, failure, stateOf } from '../../support/fixtures/balancer-fixture.js';

describe('callers that wait', () => {
  it('are served before newcomers, even if nothing announced that there is room', async () => {
    const fixture = new BalancerFixture();
    fixture.transport.capacity = 0;
    await fixture.publish('10.0.0.1');
    const order: string[] = [];
    const first = fixture.balancer.acquire().then((lease) => {
      order.push('first');
      return lease;
    });
    await settle();
    // A peer that grants more streams tells the connection, not us.
    (fixture.transport.connections[0] as FakeConnection).capacity = 1;
    expect(fixture.balancer.pick()).toBeUndefined();
    const second = fixture.balancer.acquire().then(() => order.push('second'));
    (await first).end(outcomes.success);
    await second;
    expect(order).toEqual(['first', 'second']);
  });

  it('are served as soon as a connection that reports its capacity can carry more, in order of arrival', async () => {
    const transport = new FakeTransport();
    let changed = (): void => {};
    transport.capacity = 0;
    const watched: Transport<FakeConnection> = {
      connect: async (endpoint, signal) => {
        const connection = await transport.connect(endpoint, signal);
        return Object.assign(connection, {
          watchCapacity: (told: () => void) => {
            changed = told;
          },
        });
      },
    };
    const fixture = new BalancerFixture({ transport: watched });
    await fixture.publish('10.0.0.1');
    const served: number[] = [];
    for (const caller of [1, 2, 3]) void fixture.balancer.acquire().then(() => served.push(caller));
    await settle();
    (transport.connections[0] as FakeConnection).capacity = 2;
    changed();
    await settle();
    expect(served).toEqual([1, 2]);
    (transport.connections[0] as FakeConnection).capacity = 1;
    changed();
    await settle();
    (transport.connections[0] as FakeConnection).capacity = 3;
    changed();
    await settle();
    expect(served).toEqual([1, 2, 3]);
  });

  it('may each have their own time limit, which is checked', async () => {
    const fixture = new BalancerFixture();
    const call = failure(fixture.balancer.acquire({ timeoutMs: 50 }));
    const forever = fixture.balancer.acquire({ timeoutMs: Number.POSITIVE_INFINITY });
    await fixture.clock.advanceAsync(50);
    expect(await call).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    await fixture.clock.advanceAsync(86_400_000);
    expect(await stateOf(forever)).toBe('pending');
    for (const timeoutMs of [Number.NaN, -1, '5s' as never]) {
      expect(await failure(fixture.balancer.acquire({ timeoutMs }))).toMatchObject({ code: 'EVENKEEL_OPTION' });
    }
  });

  it('get an error that says what was found when their wait was in vain', async () => {
    const fixture = new BalancerFixture({
      waitTimeoutMs: 100,
      stages: [
        () => ({
          apply: (set) => set.map((entry) => (entry.endpoint.address === '10.0.0.4' ? { ...entry, weight: 0 } : entry)),
        }),
      ],
    });
    fixture.transport.behaviour.set('10.0.0.1:80', 'refuse');
    fixture.transport.behaviour.set('10.0.0.2:80', 'hang');
    fixture.transport.capacity = 0;
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4');
    const call = failure(fixture.balancer.acquire());
    await fixture.clock.advanceAsync(100);
    expect(String(await call)).toContain(
      'fake: no endpoint could take the call within 100 ms (1 backoff, 1 connecting, 1 at capacity, 1 on standby; no connection to 10.0.0.1:80: refused 10.0.0.1:80)',
    );
  });

  it('get an error that says why endpoints are on standby', async () => {
    const fixture = new BalancerFixture({
      stages: [
        ({ observer }) => ({
          apply: (set) => {
            const reason = 'it is read-only';
            for (const { endpoint } of set.entries) observer.ejected?.({ endpoint, reason, durationMs: 1_000 });
            return set.map((entry) => ({ ...entry, weight: 0 }));
          },
        }),
      ],
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    const call = failure(fixture.balancer.acquire({ timeoutMs: 100 }));
    await fixture.clock.advanceAsync(100);
    expect(String(await call)).toContain('within 100 ms (2 on standby; it is read-only)');
  });
});

describe('a pick', () => {
  it('skips endpoints that lost their connection, or left the set, in the same turn', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    fixture.transport.open('10.0.0.1')[0]?.end(new Error('reset'));
    await Promise.resolve();
    for (let call = 0; call < 4; call++) {
      const lease = fixture.balancer.pick();
      expect(lease?.endpoint.address).toBe('10.0.0.2');
      lease?.end(outcomes.success);
    }
  });

  it('W6: does not use an endpoint that left once the turn has ended', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    fixture.resolver.update('10.0.0.2');
    await Promise.resolve();
    expect(new Set(await fixture.addresses(10))).toEqual(new Set(['10.0.0.2']));
  });

  it('reports how its lease ended', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const lease = fixture.balancer.pick();
    expect([lease?.outcome, lease?.answered]).toEqual([undefined, false]);
    lease?.progressed();
    lease?.end(outcomes.status);
    lease?.end(outcomes.success);
    expect([lease?.outcome, lease?.answered]).toEqual([outcomes.status, true]);
  });
});

describe('a blocked event loop', () => {
  it('makes no endpoint fail: calls given up after it are not held against them', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const leases = Array.from({ length: 5 }, () => fixture.balancer.pick());
    // Deadlines of callers are timers, too: they fire at the end of the stall, before any answer is looked at.
    for (const lease of leases) fixture.clock.timer(() => lease?.end(outcomes.cancelled), 2_000);
    await fixture.clock.stall(6_000);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 0 });
  });

  it('makes no timeout count if most of its time was the block', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const lease = fixture.balancer.pick();
    await fixture.clock.advanceAsync(500);
    fixture.clock.timer(() => lease?.end(outcomes.timeout), 10);
    await fixture.clock.stall(6_000);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0 });
  });

  it('excuses nothing else: an endpoint that hung before and after counts', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const [hanging, late, reset] = [fixture.balancer.pick(), fixture.balancer.pick(), fixture.balancer.pick()];
    await fixture.clock.stall(1_000);
    await fixture.clock.advanceAsync(3_000);
    hanging?.end(outcomes.cancelled);
    late?.end(outcomes.timeout);
    reset?.end(outcomes.reset);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 3 });
  });

  it('is watched with no timer once no call runs', async () => {
    const fixture = new BalancerFixture({ pool: { maxConnectionAgeMs: Number.POSITIVE_INFINITY } });
    await fixture.publish('10.0.0.1');
    expect(await fixture.addresses(10)).toHaveLength(10);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.clock.timers).toBe(0);
  });
});

describe('a snapshot', () => {
  it('is plain JSON, whatever the plug-ins return', async () => {
    const fixture = new BalancerFixture({
      load: () => ({ decays: false, start: () => {}, end: () => {}, value: () => Number.POSITIVE_INFINITY }),
    });
    fixture.transport.behaviour.set('10.0.0.2:80', 'refuse');
    await fixture.publish(
      { address: '10.0.0.1', port: 80, uid: 'u', name: 'orders-1', zone: 'a' },
      '10.0.0.2',
      '10.0.0.3',
    );
    await fixture.publish({ address: '10.0.0.1', port: 80, uid: 'u', name: 'orders-1', zone: 'a' }, '10.0.0.2');
    const snapshot = fixture.balancer.snapshot();
    expect(JSON.parse(JSON.stringify(snapshot))).toEqual(snapshot);
    expect(snapshot.endpoints).toEqual([
      {
        key: '10.0.0.1:80#u',
        address: '10.0.0.1:80',
        name: 'orders-1',
        zone: 'a',
        state: 'ready',
        status: 'ready',
        weight: 1,
        suspect: false,
        inFlight: 0,
        capacity: -1,
        connections: 1,
        load: -1,
        relativeCost: -1,
        started: 0,
        failed: 0,
      },
      expect.objectContaining({ address: '10.0.0.2:80', state: 'backoff', capacity: 0, lastError: expect.any(String) }),
      expect.objectContaining({ address: '10.0.0.3:80', state: 'draining', weight: 0 }),
    ]);
  });

  it('shows the states of the balancer one after the other', async () => {
    const fixture = new BalancerFixture();
    const state = (): string => fixture.balancer.snapshot().state;
    expect(state()).toBe('starting');
    await fixture.publish();
    expect(state()).toBe('empty');
    fixture.transport.behaviour.set('10.0.0.1:80', 'refuse');
    await fixture.publish('10.0.0.1');
    expect(state()).toBe('not-ready');
    fixture.transport.behaviour.clear();
    await fixture.clock.advanceAsync(1_000);
    expect(state()).toBe('ready');
    await fixture.balancer.close();
    expect(state()).toBe('closed');
  });
});

describe('a very large set', () => {
  it('of 10,000 endpoints that connect one by one costs few pickers, and all are picked in the end', async () => {
    let builds = 0;
    const fixture: BalancerFixture = new BalancerFixture({
      pool: { maxConnecting: 1 },
      picker: (set) => {
        builds++;
        // What building costs, as the balancer sees it.
        void fixture?.clock.stall(1);
        let next = 0;
        return { pick: () => set.targets[next++ % set.targets.length] };
      },
    });
    const addresses = Array.from({ length: 10_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
    await fixture.publish(...addresses);
    while (fixture.transport.connections.length < 10_000) await fixture.clock.advanceAsync(1);
    await fixture.clock.advanceAsync(200);
    expect(builds).toBeLessThan(1_000);
    expect(new Set(await fixture.addresses(10_000)).size).toBe(10_000);
  });
});

describe('the path that every call takes', () => {
  it('allocates the lease and nothing else', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    const { balancer } = fixture;
    // A lease is seven fields and a header: 80 bytes. The rest is what counting costs; one number more would be 16.
    expect(bytesPerCall(() => balancer.pick()?.end(outcomes.success), 88)).toBeLessThanOrEqual(88);
  });
});

describe('a pod that is killed and restarted', () => {
  it.each([
    ['rotatingAperture', 5, rotatingAperture()],
    ['p2c of few', 5, p2c()],
    ['p2c of many', 12, p2c()],
  ])('gets its share again as soon as it is connected to: %s', async (_, count, picker) => {
    const fixture = new BalancerFixture({ picker, load: relativeLatency() });
    const { balancer, clock, transport } = fixture;
    const addresses = Array.from({ length: count }, (_, index) => `10.0.0.${index + 1}`);
    await fixture.publish(...addresses);
    const call = async (): Promise<string> => {
      const lease = await balancer.acquire();
      await clock.advanceAsync(5);
      lease.end(outcomes.success);
      await clock.advanceAsync(5);
      return lease.endpoint.address;
    };
    for (let calls = 0; calls < 200 * count; calls++) await call();
    const killed = transport.connections.find(({ endpoint }) => endpoint.address === '10.0.0.2') as FakeConnection;
    const running = [];
    while (running.filter(({ endpoint }) => endpoint.address === '10.0.0.2').length < 2) {
      running.push(await balancer.acquire());
    }
    killed.end(new Error('read ECONNRESET'));
    for (const lease of running) {
      lease.end(lease.endpoint.address === '10.0.0.2' ? outcomes.reset : outcomes.success);
    }
    await clock.advanceAsync(2_000);
    let got = 0;
    // Two turns of the ring, in calls of 10 ms.
    const calls = Math.round((2 * count * 331) / 10);
    for (let index = 0; index < calls; index++) if ((await call()) === '10.0.0.2') got++;
    expect(got).toBeGreaterThan((0.5 * calls) / count);
  });
});
