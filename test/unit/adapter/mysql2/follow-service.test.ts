import { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import type { PoolOptions } from 'mysql2';
import { describe, expect, it } from 'vitest';
import { ClusterNodes, type LogIn } from '../../../../src/adapter/mysql2/follow-service/cluster-nodes.js';
import {
  type FollowServiceOptions,
  followService,
  resolveFollowOptions,
} from '../../../../src/adapter/mysql2/follow-service/follow-service.js';
import type { AnyPoolCluster } from '../../../../src/adapter/mysql2/follow-service/user-cluster.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { seededRng } from '../../../../src/testing/seeded-rng.js';
import { FakePoolCluster } from '../../../support/databases/fake-pool-cluster.js';

const a = createEndpoint({ address: '10.0.0.1', port: 3306, uid: 'a' });
const b = createEndpoint({ address: '10.0.0.2', port: 3306, uid: 'b' });
const never = new AbortController().signal;

/** Refusals go by way of a socket's events, which take a few turns. */
async function turns(): Promise<void> {
  for (let count = 0; count < 40; count++) await turn();
}

/** Nodes that were removed, without the one the cluster is tried with. */
const removed = (cluster: FakePoolCluster): string[] => cluster.removals.filter((id) => !id.startsWith('evenkeel:'));

/** How often the cluster said so, from now on. */
function countOf(cluster: FakePoolCluster, event: string): () => number {
  let count = 0;
  cluster.on(event, () => count++);
  return () => count;
}

/** An exclusive checkout that makes no progress is given up. */
async function losePatience(clock: FakeClock): Promise<void> {
  for (let look = 0; look < 5; look++) {
    clock.advance(100);
    await turns();
  }
}

function setUp({
  cluster = new FakePoolCluster({ restoreNodeTimeout: 1_000 }),
  logIn = async () => {},
  ...options
}: Partial<FollowServiceOptions> & { cluster?: FakePoolCluster; logIn?: LogIn } = {}) {
  const clock = new FakeClock();
  const node = (): PoolOptions => ({ user: 'shop', password: 'shop-secret', stream: () => new Socket() });
  const face = cluster as unknown as AnyPoolCluster;
  const resolved = resolveFollowOptions(face, { resolver: new FakeResolver(), node, clock, ...options });
  return { cluster, clock, nodes: new ClusterNodes(face, resolved, logIn) };
}

describe('a node of a cluster that follows a Service', () => {
  it('is added first as often as any other, whichever server accepts log-ins fastest', async () => {
    const endpoints = ['10.0.0.1', '10.0.0.2', '10.0.0.3'].map((address) => createEndpoint({ address, port: 3306 }));
    const first = new Map<string, number>();
    const rng = seededRng(1);
    for (let process = 1; process <= 300; process++) {
      const { cluster, clock, nodes } = setUp({
        rng,
        logIn: async ({ host }) => {
          // The further down the list, the later.
          const lateMs = 20 * (Number(host?.at(-1)) - 1);
          if (lateMs > 0) await new Promise<void>((resolve) => clock.timer(resolve, lateMs));
        },
      });
      const connecting = Promise.all(endpoints.map((endpoint) => nodes.connect(endpoint, never)));
      // The cluster is looked at first.
      await turns();
      await clock.advanceAsync(100);
      await connecting;
      const [key = ''] = cluster.nodes.keys();
      first.set(key, (first.get(key) ?? 0) + 1);
    }
    // 100 each; the standard deviation is 8.2.
    for (const { key } of endpoints) expect(Math.abs((first.get(key) ?? 0) - 100)).toBeLessThan(33);
  });

  it('waits at most 200 ms for others to be added first, and never until its own attempt times out', async () => {
    for (const [connectTimeoutMs, waitMs] of [
      [2_000, 200],
      [100, 90],
    ] as const) {
      const { cluster, clock, nodes } = setUp({
        pool: { connectTimeoutMs },
        logIn: ({ host }) => (host === '10.0.0.1' ? Promise.resolve() : new Promise(() => {})),
      });
      void nodes.connect(b, never);
      const connecting = nodes.connect(a, never);
      await turns();
      await clock.advanceAsync(waitMs - 1);
      expect(cluster.nodes.size).toBe(0);
      await clock.advanceAsync(1);
      await connecting;
      expect([...cluster.nodes.keys()]).toEqual([a.key]);
    }
  });

  it('is added at once when all others are refused, and where there are nodes already', async () => {
    const { cluster, clock, nodes } = setUp({
      logIn: ({ host }) => (host === '10.0.0.2' ? Promise.reject(new Error('refused')) : Promise.resolve()),
    });
    const [added, refused] = await Promise.allSettled([nodes.connect(a, never), nodes.connect(b, never)]);
    expect([added.status, refused.status]).toEqual(['fulfilled', 'rejected']);
    await nodes.connect(createEndpoint({ address: '10.0.0.3', port: 3306 }), never);
    expect(cluster.nodes.size).toBe(2);
    expect(clock.timers).toBe(0);
  });

  it('is added once its server accepts the log-in, with the options and the address of its endpoint', async () => {
    const seen: PoolOptions[] = [];
    const { cluster, nodes } = setUp({
      logIn: async (options) => {
        expect(cluster.nodes.size).toBe(0);
        seen.push(options);
      },
    });
    const connection = await nodes.connect(a, never);
    expect([...cluster.nodes.keys()]).toEqual([a.key]);
    expect(cluster.nodes.get(a.key)?.options).toMatchObject({ user: 'shop', host: '10.0.0.1', port: 3306 });
    expect(seen[0]).toBe(cluster.nodes.get(a.key)?.options);
    expect(connection.capacity).toBe(Number.POSITIVE_INFINITY);
  });

  it('keeps the configured host for TLS', async () => {
    const { cluster, nodes } = setUp({ node: () => ({ host: 'mysql.shop', port: 1, stream: () => new Socket() }) });
    await nodes.connect(a, never);
    expect(cluster.nodes.get(a.key)?.options).toMatchObject({ host: 'mysql.shop', port: 3306 });
  });

  it('is not added when its server refuses: the error names the server and no secret', async () => {
    const { cluster, nodes } = setUp({
      logIn: () => Promise.reject(new Error("Access denied for user 'shop'@'10.0.0.9' (using password: YES)")),
    });
    const error = await nodes.connect(a, never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: '10.0.0.1:3306' });
    expect(String(error)).toContain('cannot log in to 10.0.0.1:3306: Access denied');
    expect(JSON.stringify(error) + String(error)).not.toContain('shop-secret');
    expect(cluster.nodes.size).toBe(0);
  });

  it('is not added after the attempt was aborted', async () => {
    const attempt = new AbortController();
    const { cluster, nodes } = setUp({ logIn: async () => attempt.abort(new Error('called off')) });
    await expect(nodes.connect(a, attempt.signal)).rejects.toThrow('called off');
    expect(cluster.nodes.size).toBe(0);
  });

  it('has the id that the application gives, which must fit a pattern and belong to one endpoint only', async () => {
    const { cluster, nodes } = setUp({ id: ({ address }) => (address === '10.0.0.1' ? 'replica-1' : 'replica*') });
    await nodes.connect(a, never);
    expect([...cluster.nodes.keys()]).toEqual(['replica-1']);
    await expect(nodes.connect(b, never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    const { nodes: same } = setUp({ id: () => 'replica' });
    await same.connect(a, never);
    await expect(same.connect(b, never)).rejects.toThrow('10.0.0.1:3306 and 10.0.0.2:3306 are both "replica"');
  });

  it.each([undefined, null, 'mysql://shop', 7])('needs pool options rather than %s', async (options) => {
    const { nodes } = setUp({ node: () => options as unknown as PoolOptions });
    await expect(nodes.connect(a, never)).rejects.toThrow('node() of 10.0.0.1:3306 must be pool options of mysql2');
  });

  it('cannot share one stream among its connections', async () => {
    const { nodes } = setUp({ node: () => ({ stream: new Socket() }) });
    await expect(nodes.connect(a, never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
  });
});

describe('a node that leaves', () => {
  it('is removed at once when nothing uses it, without a failure that mysql2 would count', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    (await cluster.checkOut(a.key)).release();
    const offline = countOf(cluster, 'offline');
    void connection.close();
    expect(await connection.closed).toBeUndefined();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
    expect(offline()).toBe(0);
    expect(clock.timers).toBe(0);
  });

  it('does not wait for a server that does not close the connection', async () => {
    const { cluster, nodes } = setUp();
    const connection = await nodes.connect(a, never);
    (await cluster.checkOut(a.key)).release();
    cluster.hangUp = false;
    void connection.close();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('is removed as soon as its running queries have ended, and lends no connection meanwhile', async () => {
    const { cluster, nodes } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await Promise.all(Array.from({ length: 10 }, () => cluster.checkOut(a.key)));
    void connection.close();
    const late = cluster.checkOut(a.key).catch((error: unknown) => error);
    await turns();
    for (const each of used) each.release();
    expect(await late).toMatchObject({ code: 'EVENKEEL_CONNECT', message: '10.0.0.1:3306 is leaving the cluster' });
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('waits while connections come back', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await Promise.all(Array.from({ length: 5 }, () => cluster.checkOut(a.key)));
    const offline = countOf(cluster, 'offline');
    void connection.close();
    for (const each of used) {
      clock.advance(190);
      await turns();
      each.release();
      await turns();
    }
    expect(removed(cluster)).toEqual([a.key]);
    expect(offline()).toBe(0);
  });

  it('is taken offline when a connection is kept, and removed when that one is closed', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    void connection.close();
    await losePatience(clock);
    expect(cluster.nodes.get(a.key)).toMatchObject({ isOffline: true, idle: [], size: 1 });
    expect(removed(cluster)).toEqual([]);
    used.destroy();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
    await clock.advanceAsync(60_000);
    expect(clock.timers).toBe(0);
  });

  it('closes connections that are given back while mysql2 has it online again', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    void connection.close();
    await losePatience(clock);
    used.release();
    (cluster.nodes.get(a.key) as { isOffline: boolean }).isOffline = false;
    clock.advance(1_000);
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('closes a connection that was given back as soon as mysql2 lends it again', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const [one, other] = [await cluster.checkOut(a.key), await cluster.checkOut(a.key)];
    void connection.close();
    await losePatience(clock);
    one.release();
    (cluster.nodes.get(a.key) as { isOffline: boolean }).isOffline = false;
    cluster.emit('online', a.key);
    await turns();
    expect(cluster.nodes.get(a.key)).toMatchObject({ size: 1, idle: [] });
    other.destroy();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('is cut when its time is over, and removed once nothing in mysql2 can break', async () => {
    const { cluster, nodes, clock } = setUp({ drainTimeoutMs: 10_000 });
    const connection = await nodes.connect(a, never);
    await cluster.checkOut(a.key);
    void connection.close();
    for (let step = 0; step < 100; step++) {
      clock.advance(100);
      await turns();
    }
    expect(removed(cluster)).toEqual([]);
    // Nothing passes through it for another moment: no query is under way.
    clock.advance(100);
    expect(removed(cluster)).toEqual([]);
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
    expect(clock.timers).toBe(0);
  });

  it('gives a query that then runs some more time, but not forever', async () => {
    let passed = 0;
    const busy = () => Object.defineProperty(new Socket(), 'bytesRead', { get: () => passed++ });
    const { cluster, nodes, clock } = setUp({ drainTimeoutMs: 1_000, node: () => ({ stream: busy }) });
    const connection = await nodes.connect(a, never);
    await cluster.checkOut(a.key);
    void connection.close();
    for (let step = 0; step < 55; step++) {
      clock.advance(100);
      await turns();
    }
    expect(removed(cluster)).toEqual([]);
    clock.advance(500);
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('is not removed while a caller is being refused', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    void connection.close();
    await losePatience(clock);
    (cluster.nodes.get(a.key) as { isOffline: boolean }).isOffline = false;
    used.destroy();
    const wasThere = cluster.checkOut(a.key).catch(() => cluster.nodes.has(a.key));
    expect(await wasThere).toBe(true);
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('without a drain time is removed at once, with its running queries', async () => {
    const { cluster, nodes } = setUp({ drainTimeoutMs: 0 });
    const connection = await nodes.connect(a, never);
    await cluster.checkOut(a.key);
    void connection.close();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('does not try to collect a pool without a limit', async () => {
    const { cluster, nodes, clock } = setUp({ node: () => ({ connectionLimit: 0, stream: () => new Socket() }) });
    const connection = await nodes.connect(a, never);
    const node = cluster.nodes.get(a.key) as { size: number; options: PoolOptions };
    Object.assign(node.options, { connectionLimit: 1_000 });
    const used = await cluster.checkOut(a.key);
    void connection.close();
    expect(node.size).toBe(1);
    clock.advance(0);
    await turns();
    used.destroy();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it.each([0, 500])('stays, with the connections in use, when its endpoint returns after %s ms', async (afterMs) => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    void connection.close();
    clock.advance(afterMs);
    await turns();
    const again = await nodes.connect(a, never);
    (cluster.nodes.get(a.key) as { isOffline: boolean }).isOffline = false;
    await clock.advanceAsync(60_000);
    expect(removed(cluster)).toEqual([]);
    // It takes new connections again.
    const more = await Promise.all(Array.from({ length: 9 }, () => cluster.checkOut(a.key)));
    for (const each of [used, ...more]) each.release();
    void again.close();
    await turns();
    expect(removed(cluster)).toEqual([a.key]);
  });

  it('makes room for a successor with its id', async () => {
    const { cluster, nodes } = setUp({ id: () => 'mysql-0' });
    const connection = await nodes.connect(a, never);
    await cluster.checkOut('mysql-0');
    void connection.close();
    await nodes.connect(b, never);
    expect(removed(cluster)).toEqual(['mysql-0']);
    expect(cluster.nodes.get('mysql-0')?.options.host).toBe('10.0.0.2');
    await turns();
    expect([...cluster.nodes.keys()]).toEqual(['mysql-0']);
  });
});

describe('a cluster to be followed', () => {
  it('must take failing nodes offline, not remove them: otherwise nothing is added', async () => {
    const { cluster, nodes } = setUp({ cluster: new FakePoolCluster() });
    await expect(nodes.connect(a, never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    await expect(nodes.fit()).rejects.toThrow('restoreNodeTimeout');
    expect(cluster.nodes.size).toBe(0);
  });

  it('is tested once with a node that is lent to no caller and removed before the first one is added', async () => {
    const tried: string[] = [];
    const { cluster, nodes } = setUp({ logIn: async () => expect(cluster.nodes.size).toBe(0) as never });
    cluster.on('offline', (id) => tried.push(id));
    await Promise.all([nodes.connect(a, never), nodes.connect(b, never)]);
    expect(tried).toHaveLength(1);
    expect(cluster.removals).toEqual(tried);
    expect([...cluster.nodes.keys()].sort()).toEqual([a.key, b.key]);
    expect(cluster.listenerCount('offline')).toBe(1);
    expect(cluster.listenerCount('remove')).toBe(0);
  });
});

describe('a follower that stops', () => {
  it('leaves its nodes in the cluster, and waits for those that are being removed', async () => {
    const { cluster, nodes } = setUp();
    const [first, second] = [await nodes.connect(a, never), await nodes.connect(b, never)];
    const used = await cluster.checkOut(b.key);
    void second.close();
    nodes.abandon();
    let isOver = false;
    const left = nodes.left().then(() => {
      isOver = true;
    });
    void first.close();
    await turns();
    expect(isOver).toBe(false);
    used.release();
    await left;
    expect([...cluster.nodes.keys()]).toEqual([a.key]);
    expect(cluster.listenerCount('online')).toBe(0);
    await expect(nodes.connect(b, never)).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
  });

  it('waits for them no longer than its signal', async () => {
    const { cluster, nodes, clock } = setUp({ drainTimeoutMs: Number.POSITIVE_INFINITY });
    const connection = await nodes.connect(a, never);
    await cluster.checkOut(a.key);
    void connection.close();
    nodes.abandon();
    const stop = new AbortController();
    nodes.cutLeavingOn(stop.signal);
    await clock.advanceAsync(60_000);
    expect(removed(cluster)).toEqual([]);
    stop.abort();
    await nodes.left();
    expect(removed(cluster)).toEqual([a.key]);
  });
});

describe('followService', () => {
  const cluster = new FakePoolCluster() as unknown as AnyPoolCluster;
  const node = () => ({});
  it.each([
    ['a cluster', {}, { resolver: new FakeResolver(), node }, 'cluster must be a PoolCluster of mysql2'],
    ['a resolver', cluster, { node }, 'resolver must be a resolver or a target string'],
    ['node()', cluster, { resolver: new FakeResolver() }, 'node must be a function'],
    ['an id() that is a function', cluster, { resolver: new FakeResolver(), node, id: 'x' }, 'id must be a function'],
    ['known options', cluster, { resolver: new FakeResolver(), node, picker: 1 }, 'options has no option "picker"'],
    [
      'known pool options',
      cluster,
      { resolver: new FakeResolver(), node, pool: { drainTimeoutMs: 1 } },
      '"drainTimeoutMs"',
    ],
    [
      'a time for draining',
      cluster,
      { resolver: new FakeResolver(), node, drainTimeoutMs: -1 },
      'drainTimeoutMs must be',
    ],
    ['a list of stages', cluster, { resolver: new FakeResolver(), node, stages: {} }, 'stages must be a list'],
  ])('needs %s', (_what, given, options, message) => {
    expect(() => followService(given as AnyPoolCluster, options as unknown as FollowServiceOptions)).toThrow(message);
  });

  it.each(['ready', 'close'] as const)('refuses unknown options of %s()', async (method) => {
    await using follower = followService(new FakePoolCluster() as unknown as AnyPoolCluster, {
      resolver: new FakeResolver(),
      node,
    });
    await expect(follower[method]({ sginal: AbortSignal.abort() } as never)).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
      message: `${method} has no option "sginal" (did you mean "signal"?); it knows signal`,
    });
  });
});
