import { describe, expect, it } from 'vitest';
import { createEndpoint, type Endpoint, type EndpointInit } from '../../../src/endpoint/endpoint.js';
import { EndpointSet } from '../../../src/endpoint/endpoint-set.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import type { Observer } from '../../../src/observe/observer.js';
import { Warnings } from '../../../src/observe/warnings.js';
import { Pool, type PoolParts } from '../../../src/pool/pool.js';
import { type PoolOptions, resolvePoolOptions } from '../../../src/pool/pool-options.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

type Init = string | (Partial<EndpointInit> & { address: string });

class PoolFixture {
  readonly clock = new FakeClock();
  readonly transport = new FakeTransport();
  readonly tracked: string[] = [];
  readonly warnings: string[] = [];
  changes = 0;
  readonly pool: Pool<FakeConnection>;

  constructor(options: PoolOptions = {}, more: Partial<PoolParts<FakeConnection>> = {}) {
    const observer: Observer = { warned: ({ message }) => this.warnings.push(message), ...more.observer };
    this.pool = new Pool<FakeConnection>({
      transport: this.transport,
      clock: this.clock,
      rng: seededRng(1),
      warnings: new Warnings(observer, this.clock),
      options: resolvePoolOptions(options),
      load: inFlight(),
      track: (endpoint) => {
        this.tracked.push(endpoint.key);
        return [];
      },
      changed: () => this.changes++,
      capacityGained: () => {},
      troubled: () => {},
      ...more,
      observer,
    });
  }

  /** Brings the pool in step with these; `listed` is what the resolver lists beyond them. */
  async follow(inits: readonly Init[], listed: readonly Init[] = []): Promise<void> {
    const endpoints = inits.map(endpoint);
    const known = new Map([...endpoints, ...listed.map(endpoint)].map((each) => [each.key, each]));
    this.pool.reconcile(EndpointSet.of(1, endpoints), known);
    await settle();
  }

  get states(): Record<string, string> {
    return Object.fromEntries([...this.pool.subchannels].map(({ endpoint: { key }, state }) => [key, state]));
  }

  get members(): string[] {
    return this.pool.members.map(({ subchannel }) => subchannel.endpoint.key);
  }
}

function endpoint(init: Init): Endpoint {
  return createEndpoint({ port: 80, ...(typeof init === 'string' ? { address: init } : init) });
}

describe('the pool', () => {
  it('keeps one subchannel per endpoint, in the order of the set', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.2', '10.0.0.1']);
    expect(fixture.members).toEqual(['10.0.0.2:80', '10.0.0.1:80']);
    expect(fixture.states).toEqual({ '10.0.0.2:80': 'ready', '10.0.0.1:80': 'ready' });
    await fixture.follow(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    expect(fixture.members).toEqual(['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80']);
    expect(fixture.transport.attempts).toHaveLength(3);
    expect(fixture.tracked).toEqual(['10.0.0.2:80', '10.0.0.1:80', '10.0.0.3:80']);
  });

  it('U8: a change of conditions, zone, hints or weight closes nothing', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1']);
    await fixture.follow([
      { address: '10.0.0.1', zone: 'a', weight: 5, hintZones: ['a'], conditions: { ready: false } },
    ]);
    expect(fixture.transport.attempts).toHaveLength(1);
    expect(fixture.pool.get('10.0.0.1:80')?.endpoint).toMatchObject({ zone: 'a', weight: 5 });
    expect(fixture.pool.members[0]?.weight).toBe(5);
  });

  it('U7: another uid is another pod: new connection, new history, the old one drains', async () => {
    const fixture = new PoolFixture();
    await fixture.follow([{ address: '10.0.0.1', uid: 'a' }]);
    await fixture.follow([{ address: '10.0.0.1', uid: 'b' }]);
    expect(fixture.states).toEqual({ '10.0.0.1:80#a': 'draining', '10.0.0.1:80#b': 'ready' });
    expect(fixture.tracked).toEqual(['10.0.0.1:80#a', '10.0.0.1:80#b']);
    expect(fixture.transport.attempts).toHaveLength(2);
  });

  it('T1: an endpoint that left and terminates closes once it is idle; one that only left is kept for its return', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    await fixture.follow(['10.0.0.3'], [{ address: '10.0.0.1', conditions: { ready: false, terminating: true } }]);
    expect(fixture.states).toEqual({ '10.0.0.2:80': 'draining', '10.0.0.3:80': 'ready' });
  });

  it('T1: an endpoint that left first and terminates later closes then', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    await fixture.follow(['10.0.0.2']);
    await fixture.follow(['10.0.0.2'], [{ address: '10.0.0.1', conditions: { terminating: true } }]);
    expect(fixture.states).toEqual({ '10.0.0.2:80': 'ready' });
  });

  it('T2: an endpoint that returns is used with its connection', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    const before = fixture.pool.get('10.0.0.1:80');
    await fixture.follow(['10.0.0.2']);
    await fixture.clock.advanceAsync(29_000);
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    expect(fixture.pool.get('10.0.0.1:80')).toBe(before);
    expect(fixture.transport.attempts).toHaveLength(2);
  });

  it('does not shorten the pause of an endpoint whose server ended its connection at once, when the set changes', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1']);
    fixture.transport.connections[0]?.leave();
    await settle();
    expect(fixture.states).toEqual({ '10.0.0.1:80': 'idle' });
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    expect(fixture.transport.attempts).toEqual(['10.0.0.1:80', '10.0.0.2:80']);
    await fixture.clock.advanceAsync(400);
    expect(fixture.states).toEqual({ '10.0.0.1:80': 'ready', '10.0.0.2:80': 'ready' });
  });

  it('opens a new connection to an endpoint that returns after it was closed', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    await fixture.follow(['10.0.0.2']);
    await fixture.clock.advanceAsync(30_000);
    expect(fixture.states).toEqual({ '10.0.0.2:80': 'ready' });
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    expect(fixture.transport.attempts).toHaveLength(3);
  });

  it('opens at most maxConnecting connections at once, and all in the end', async () => {
    const fixture = new PoolFixture({ maxConnecting: 3, connectTimeoutMs: 1_000 });
    const addresses = Array.from({ length: 10 }, (_, i) => `10.0.0.${i}`);
    for (const address of addresses) fixture.transport.behaviour.set(`${address}:80`, 'hang');
    await fixture.follow(addresses);
    expect(fixture.transport.hanging).toBe(3);
    fixture.transport.behaviour.clear();
    await fixture.clock.advanceAsync(1_000);
    await fixture.clock.advanceAsync(3_000);
    expect(Object.values(fixture.states)).toEqual(addresses.map(() => 'ready'));
  });

  it('a new endpoint connects at once though a hundred others hang', async () => {
    const fixture = new PoolFixture({ maxConnecting: 32 });
    const hanging = Array.from({ length: 100 }, (_, i) => `10.1.0.${i}`);
    for (const address of hanging) fixture.transport.behaviour.set(`${address}:80`, 'hang');
    await fixture.follow(hanging);
    await fixture.clock.advanceAsync(10_000);
    await fixture.follow([...hanging, '10.2.0.1']);
    expect(fixture.states['10.2.0.1:80']).toBe('ready');
  });

  it('closes idle subchannels at once, busy ones when their calls end', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1', '10.0.0.2']);
    const busy = fixture.pool.get('10.0.0.1:80');
    busy?.start(0);
    let closed = false;
    const closing = fixture.pool.close(new AbortController().signal).then(() => {
      closed = true;
    });
    await settle();
    expect(fixture.states).toEqual({ '10.0.0.1:80': 'draining' });
    expect(closed).toBe(false);
    busy?.end(0, 1, outcomes.success, 0);
    await closing;
    expect(fixture.transport.open()).toHaveLength(0);
    expect(fixture.clock.timers).toBe(0);
  });

  it('cuts all connections when the signal aborts, also those being replaced', async () => {
    const fixture = new PoolFixture();
    await fixture.follow(['10.0.0.1']);
    await fixture.clock.advanceAsync(1_000);
    const [old] = fixture.transport.connections as [FakeConnection];
    const onOld = old.begin();
    old.leave();
    await settle();
    const onNew = (fixture.transport.connections[1] as FakeConnection).begin();
    const limit = new AbortController();
    const closing = fixture.pool.close(limit.signal);
    await settle();
    expect(fixture.transport.open()).toHaveLength(2);
    limit.abort();
    await closing;
    expect(await Promise.all([onOld.ended, onNew.ended])).toEqual(['cut', 'cut']);
    expect(fixture.clock.timers).toBe(0);
  });

  it('closes with an aborted signal, when empty, and while it connects', async () => {
    await new PoolFixture().pool.close(AbortSignal.abort());
    await new PoolFixture().pool.close(new AbortController().signal);
    const fixture = new PoolFixture();
    fixture.transport.behaviour.set('10.0.0.1:80', 'hang');
    await fixture.follow(['10.0.0.1']);
    await fixture.pool.close(new AbortController().signal);
    expect([fixture.transport.hanging, fixture.clock.timers]).toEqual([0, 0]);
  });

  it('opens nothing more once an observer has closed it in the middle of a set', async () => {
    const fixture: PoolFixture = new PoolFixture(
      {},
      {
        observer: {
          subchannelChanged: ({ to }) => {
            if (to === 'connecting') void fixture.pool.close(AbortSignal.abort());
          },
        },
      },
    );
    await fixture.follow(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    expect(fixture.states).toEqual({});
    expect(fixture.members).toEqual([]);
    expect(fixture.clock.timers).toBe(0);
  });

  it('counts calls in flight when the load factory throws, and reports it', async () => {
    const fixture = new PoolFixture(
      {},
      {
        load: () => {
          throw new Error('broken');
        },
      },
    );
    await fixture.follow(['10.0.0.1']);
    expect(fixture.pool.get('10.0.0.1:80')?.load.value(0)).toBe(1);
    expect(fixture.warnings).toEqual(['the load factory threw; calls in flight are counted instead']);
  });

  describe('notifies connections that their endpoint left or returned', () => {
    const told: string[] = [];
    const watched = async (options: PoolOptions = {}): Promise<PoolFixture> => {
      told.length = 0;
      const fixture = new PoolFixture(options);
      await fixture.follow(['10.0.0.1', '10.0.0.2']);
      for (const connection of fixture.transport.connections) {
        const { address } = connection.endpoint;
        Object.assign(connection, {
          left: () => told.push(`${address} left`),
          returned: () => told.push(`${address} returned`),
        });
      }
      return fixture;
    };

    it('once the endpoint has left the set, and again when it is back', async () => {
      const fixture = await watched();
      fixture.pool.get('10.0.0.1:80')?.start(0);
      await fixture.follow(['10.0.0.2'], [{ address: '10.0.0.1', conditions: { terminating: true } }]);
      expect(told).toEqual(['10.0.0.1 left']);
      await fixture.follow(['10.0.0.1', '10.0.0.2']);
      expect(told).toEqual(['10.0.0.1 left', '10.0.0.1 returned']);
    });

    it('also a connection with running calls that gets no new ones', async () => {
      const fixture = await watched();
      fixture.pool.get('10.0.0.1:80')?.start(0);
      const [first] = fixture.transport.open('10.0.0.1');
      first?.begin();
      first?.leave();
      await settle();
      await fixture.follow(['10.0.0.2']);
      expect(told).toEqual(['10.0.0.1 left']);
    });

    it('but not when the balancer closes: its calls have nowhere else to go', async () => {
      const fixture = await watched();
      fixture.pool.get('10.0.0.1:80')?.start(0);
      void fixture.pool.close(AbortSignal.abort());
      expect(told).toEqual([]);
    });

    it('and continues when a connection throws', async () => {
      const fixture = await watched();
      const [first] = fixture.transport.open('10.0.0.1');
      const broken = (): never => {
        throw new Error('broken');
      };
      Object.assign(first as object, { left: broken, returned: broken });
      fixture.pool.get('10.0.0.1:80')?.start(0);
      await fixture.follow(['10.0.0.2']);
      await fixture.follow(['10.0.0.1', '10.0.0.2']);
      expect(fixture.states).toEqual({ '10.0.0.1:80': 'ready', '10.0.0.2:80': 'ready' });
      expect(fixture.warnings).toContain('a connection threw in left() or returned()');
    });
  });
});

describe('endpoints that cannot be reached', () => {
  it('share 50 dials per second in fair turns, delay no others, and are connected to soon after they are back', async () => {
    const fixture = new PoolFixture();
    const { transport, clock } = fixture;
    const gone = Array.from({ length: 1_000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`);
    for (const address of gone) transport.behaviour.set(`${address}:80`, 'refuse');
    await fixture.follow(['10.0.0.1', ...gone]);
    // Until all have failed more than a few times: before, those that have not go first.
    await clock.advanceAsync(120_000);
    transport.attempts.length = 0;
    await clock.advanceAsync(60_000);
    expect(transport.attempts.length).toBeLessThanOrEqual(3_001);
    expect(transport.attempts.length).toBeGreaterThan(2_900);
    const turns = new Map<string, number>();
    for (const address of transport.attempts) turns.set(address, (turns.get(address) ?? 0) + 1);
    expect(turns.size).toBe(1_000);
    // Three each, one more or less by the pause each has besides.
    expect(Math.max(...turns.values()) - Math.min(...turns.values())).toBeLessThanOrEqual(2);
    // A new one is connected to at once, and one that failed once soon.
    transport.behaviour.set('10.0.0.3:80', 'refuse');
    await fixture.follow(['10.0.0.1', '10.0.0.2', '10.0.0.3', ...gone]);
    expect(fixture.states).toMatchObject({ '10.0.0.1:80': 'ready', '10.0.0.2:80': 'ready', '10.0.0.3:80': 'backoff' });
    transport.behaviour.set('10.0.0.3:80', 'accept');
    await clock.advanceAsync(300);
    expect(fixture.states).toMatchObject({ '10.0.0.3:80': 'ready' });
    transport.behaviour.clear();
    await clock.advanceAsync(4_000);
    expect(new Set(Object.values(fixture.states))).toEqual(new Set(['ready']));
  });
});
