import { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import type { PoolOptions } from 'mysql2';
import { describe, expect, it, vi } from 'vitest';
import type { AnyPoolCluster } from '../../../../src/adapter/mysql2/cluster-face.js';
import { ClusterNodes, type LogIn } from '../../../../src/adapter/mysql2/cluster-nodes.js';
import { type FollowServiceOptions, resolveFollowOptions } from '../../../../src/adapter/mysql2/follow-options.js';
import { followService } from '../../../../src/adapter/mysql2/follow-service.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { FakePoolCluster } from '../../../support/fake-pool-cluster.js';

const a = createEndpoint({ address: '10.0.0.1', port: 3306, uid: 'a' });
const b = createEndpoint({ address: '10.0.0.2', port: 3306, uid: 'b' });
const never = new AbortController().signal;

/** Refusals go by way of a socket's events, which take a few turns. */
async function turns(): Promise<void> {
  for (let count = 0; count < 40; count++) await turn();
}

function setUp({
  cluster = new FakePoolCluster({ restoreNodeTimeout: 1_000 }),
  logIn = async () => {},
  ...options
}: Partial<FollowServiceOptions> & { cluster?: FakePoolCluster; logIn?: LogIn } = {}) {
  const clock = new FakeClock();
  const warned = vi.fn();
  const node = (): PoolOptions => ({ user: 'shop', password: 'shop-secret', stream: () => new Socket() });
  const face = cluster as unknown as AnyPoolCluster;
  const resolved = resolveFollowOptions(face, { resolver: new FakeResolver(), node, clock, ...options });
  return { cluster, clock, warned, nodes: new ClusterNodes(face, resolved, logIn, { warned }) };
}

describe('a node of a cluster that follows a Service', () => {
  it('is added once its server takes the log-in, with the options and the address of its endpoint', async () => {
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

  it('keeps the host it was given, for TLS', async () => {
    const { cluster, nodes } = setUp({ node: () => ({ host: 'mysql.shop', port: 1, stream: () => new Socket() }) });
    await nodes.connect(a, never);
    expect(cluster.nodes.get(a.key)?.options).toMatchObject({ host: 'mysql.shop', port: 3306 });
  });

  it('is not added when its server does not: the error names the server and no secret', async () => {
    const { cluster, nodes } = setUp({
      logIn: () => Promise.reject(new Error("Access denied for user 'shop'@'10.0.0.9' (using password: YES)")),
    });
    const error = await nodes.connect(a, never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: '10.0.0.1:3306' });
    expect(String(error)).toContain('cannot log in to 10.0.0.1:3306: Access denied');
    expect(JSON.stringify(error) + String(error)).not.toContain('shop-secret');
    expect(cluster.nodes.size).toBe(0);
  });

  it('is not added after the attempt was called off', async () => {
    const attempt = new AbortController();
    const { cluster, nodes } = setUp({ logIn: async () => attempt.abort(new Error('called off')) });
    await expect(nodes.connect(a, attempt.signal)).rejects.toThrow('called off');
    expect(cluster.nodes.size).toBe(0);
  });

  it('has the id the user gives, which must be fit for a pattern and for one endpoint only', async () => {
    const { cluster, nodes } = setUp({ id: ({ address }) => (address === '10.0.0.1' ? 'replica-1' : 'replica*') });
    await nodes.connect(a, never);
    expect([...cluster.nodes.keys()]).toEqual(['replica-1']);
    await expect(nodes.connect(b, never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    const { nodes: same } = setUp({ id: () => 'replica' });
    await same.connect(a, never);
    await expect(same.connect(b, never)).rejects.toThrow('10.0.0.1:3306 and 10.0.0.2:3306 are both "replica"');
  });

  it.each([undefined, null, 'mysql://shop', 7])('needs pool options, not %s', async (options) => {
    const { nodes } = setUp({ node: () => options as unknown as PoolOptions });
    await expect(nodes.connect(a, never)).rejects.toThrow('node() of 10.0.0.1:3306 must be pool options of mysql2');
  });

  it('cannot share one stream among its connections', async () => {
    const { nodes } = setUp({ node: () => ({ stream: new Socket() }) });
    await expect(nodes.connect(a, never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
  });

  it('says that it is lost when mysql2 gave it up, so that it is added again', async () => {
    const { cluster, nodes } = setUp({ cluster: new FakePoolCluster() });
    const connection = await nodes.connect(a, never);
    for (let count = 0; count < 5; count++) cluster.failed(a.key);
    expect(await connection.closed).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: '10.0.0.1:3306' });
    expect(nodes.ids).toEqual([]);
    await nodes.connect(a, never);
    expect([...cluster.nodes.keys()]).toEqual([a.key]);
  });
});

describe('a node that leaves', () => {
  it('ends its idle connections, is taken offline, and goes when the last one is closed', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const [idle, used] = [await cluster.checkOut(a.key), await cluster.checkOut(a.key)];
    idle.release();
    void connection.close();
    expect(await connection.closed).toBeUndefined();
    await turns();
    expect(cluster.nodes.get(a.key)).toMatchObject({ isOffline: true, idle: [] });
    expect(cluster.removals).toEqual([]);
    used.destroy();
    await turns();
    expect(cluster.removals).toEqual([a.key]);
    await clock.advanceAsync(60_000);
    expect(clock.timers).toBe(0);
  });

  it('ends what is given back while mysql2 has it online again', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    void connection.close();
    await turns();
    used.release();
    (cluster.nodes.get(a.key) as { isOffline: boolean }).isOffline = false;
    clock.advance(1_000);
    await turns();
    expect(cluster.removals).toEqual([a.key]);
  });

  it('goes when its time is up, whoever uses it; what does not close then is cut', async () => {
    const { cluster, nodes, clock } = setUp({ drainTimeoutMs: 10_000 });
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    const destroyed = vi.spyOn(Socket.prototype, 'destroy');
    void connection.close();
    for (let second = 0; second < 9; second++) {
      clock.advance(1_000);
      await turns();
    }
    expect(cluster.removals).toEqual([]);
    clock.advance(1_000);
    expect(cluster.removals).toEqual([a.key]);
    destroyed.mockClear();
    clock.advance(5_000);
    expect(destroyed).toHaveBeenCalledTimes(1);
    expect(clock.timers).toBe(0);
    destroyed.mockRestore();
    used.destroy();
  });

  it('goes at once without a drain time', async () => {
    const { cluster, nodes } = setUp({ drainTimeoutMs: 0 });
    const connection = await nodes.connect(a, never);
    void connection.close();
    expect(cluster.removals).toEqual([a.key]);
  });

  it('stays, with the connections in use, when its endpoint returns', async () => {
    const { cluster, nodes, clock } = setUp();
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut(a.key);
    void connection.close();
    await turns();
    const again = await nodes.connect(a, never);
    (cluster.nodes.get(a.key) as { isOffline: boolean }).isOffline = false;
    await clock.advanceAsync(60_000);
    expect(cluster.removals).toEqual([]);
    // It takes new connections again.
    used.release();
    expect(await cluster.checkOut(a.key)).toBe(used);
    (await cluster.checkOut(a.key)).destroy();
    used.destroy();
    void again.close();
    await turns();
    expect(cluster.removals).toEqual([a.key]);
  });

  it('makes room for a successor with its id', async () => {
    const { cluster, nodes } = setUp({ id: () => 'mysql-0' });
    const connection = await nodes.connect(a, never);
    const used = await cluster.checkOut('mysql-0');
    void connection.close();
    await nodes.connect(b, never);
    expect(cluster.removals).toEqual(['mysql-0']);
    expect(cluster.nodes.get('mysql-0')?.options.host).toBe('10.0.0.2');
    used.destroy();
    await turns();
    expect([...cluster.nodes.keys()]).toEqual(['mysql-0']);
  });

  it('tells once that a cluster without restoreNodeTimeout cut it short', async () => {
    const { cluster, nodes, warned } = setUp({ cluster: new FakePoolCluster() });
    for (const endpoint of [a, b]) {
      const connection = await nodes.connect(endpoint, never);
      await cluster.checkOut(endpoint.key);
      void connection.close();
    }
    await turns();
    expect(cluster.nodes.size).toBe(0);
    expect(warned).toHaveBeenCalledTimes(1);
    expect(warned.mock.calls[0]?.[0].message).toContain('restoreNodeTimeout');
  });
});

describe('a follower that stops', () => {
  it('leaves its nodes in the cluster, and waits for those that are leaving', async () => {
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
    used.destroy();
    await left;
    expect([...cluster.nodes.keys()]).toEqual([a.key]);
    expect(cluster.listenerCount('remove')).toBe(0);
    await expect(nodes.connect(b, never)).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
  });

  it('gives them no more time than its signal', async () => {
    const { cluster, nodes } = setUp({ drainTimeoutMs: Number.POSITIVE_INFINITY });
    const connection = await nodes.connect(a, never);
    await cluster.checkOut(a.key);
    void connection.close();
    nodes.abandon();
    const stop = new AbortController();
    nodes.removeLeavingOn(stop.signal);
    stop.abort();
    await nodes.left();
    expect(cluster.removals).toEqual([a.key]);
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
});
