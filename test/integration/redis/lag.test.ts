import { connect, createServer, type Server, type Socket } from 'node:net';
import { roundRobin } from 'evenkeel';
import { createReplicas, type Replicas, type ReplicasOptions } from 'evenkeel/redis';
import { FakeResolver } from 'evenkeel/testing';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { noRedis, type RedisWorld, startRedis, titled } from '../../support/databases/redis.js';
import { until } from '../../support/until.js';

/** A way to the primary that can be held up: what is replicated over it then waits, and the link stays up. */
class SlowLink {
  port = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isHeld = false;

  constructor(to: number) {
    this.#server = createServer((socket) => {
      const other = connect(to, '127.0.0.1');
      for (const [one, peer] of [
        [socket, other],
        [other, socket],
      ] as const) {
        this.#sockets.add(one);
        one.pipe(peer);
        one.on('error', () => {});
        one.once('close', () => {
          this.#sockets.delete(one);
          peer.destroy();
        });
      }
      if (this.#isHeld) this.hold();
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.port = (this.#server.address() as { port: number }).port;
  }

  hold(): void {
    this.#isHeld = true;
    for (const socket of this.#sockets) socket.pause();
  }

  release(): void {
    this.#isHeld = false;
    for (const socket of this.#sockets) socket.resume();
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

describe.skipIf(noRedis)(titled('replicas that are behind the primary'), () => {
  let world: RedisWorld;
  let link: SlowLink;
  const closing: (() => Promise<unknown>)[] = [];

  const open = async (options: ReplicasOptions = {}): Promise<Replicas<Redis>> => {
    const primary = new Redis({ port: world.at(0).port });
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', { ...common(), ...options });
    closing.push(() => replicas.client.quit());
    await inUse(replicas, [1, 2]);
    return replicas;
  };
  const common = (): ReplicasOptions => {
    const resolver = new FakeResolver();
    resolver.update(world.at(1).endpoint, world.at(2).endpoint);
    return { resolver, picker: roundRobin(), role: 'replica', probeIntervalMs: 50, maxLagMs: 300 };
  };
  /** Waits until just these servers get reads. */
  const inUse = (replicas: { readonly balancer: Replicas<Redis>['balancer'] }, indexes: readonly number[]) =>
    until(`${indexes} are read from`, () => {
      const { endpoints } = replicas.balancer.snapshot();
      const used = endpoints.filter(({ state, weight }) => state === 'ready' && weight > 0).map(({ key }) => key);
      const wanted = indexes.map((index) => `127.0.0.1:${world.at(index).port}`);
      return used.sort().join() === wanted.sort().join();
    });
  const gets = async (index: number): Promise<number> => (await world.at(index).commandCounts()).get('get') ?? 0;

  beforeAll(async () => {
    world = await startRedis(2);
    link = new SlowLink(world.at(0).port);
    await link.listen();
    await world.at(1).command('REPLICAOF', '127.0.0.1', String(link.port));
    await world.inStep();
    // A primary sends a new replica nothing before its first acknowledgement, which may take a second.
    await world.at(0).command('SET', 'started', '1');
    for (const replica of world.all.slice(1)) {
      await until('it replicates', async () => (await replica.command('GET', 'started')) === '1');
    }
  });
  afterAll(async () => {
    await world?.close();
    link?.close();
  });
  afterEach(async () => {
    link.release();
    await world.inStep();
    for (const close of closing.splice(0)) await close();
    for (const server of world.all) await until('nothing is left open', async () => (await server.connections()) === 0);
  });

  it('get no reads while another replica is not behind', async () => {
    const replicas = await open();
    link.hold();
    await replicas.client.set('item', 'new');
    await inUse(replicas, [2]);
    expect(await world.at(1).command('INFO', 'replication')).toContain('master_link_status:up');
    const before = await gets(1);
    expect(await Promise.all(Array.from({ length: 20 }, () => replicas.client.get('item')))).toEqual(
      Array.from({ length: 20 }, () => 'new'),
    );
    expect(await gets(1)).toBe(before);
    link.release();
    await inUse(replicas, [1, 2]);
  });

  it('still serve reads if there is no other server', async () => {
    const replicas = await open();
    await world.at(2).command('REPLICAOF', '127.0.0.1', String(link.port));
    await world.inStep();
    await inUse(replicas, [1, 2]);
    link.hold();
    await replicas.client.set('item', 'newer');
    // Both are behind, so both are used; the primary is not.
    const { endpoints } = replicas.balancer.snapshot();
    expect(endpoints.map(({ weight }) => weight)).toEqual([1, 1]);
    expect(await replicas.client.get('item')).toBe('new');
    link.release();
    await world.at(2).follow(world.at(0));
  });

  it('leave reads to the primary if there is no other replica and the primary may serve them', async () => {
    const replicas = await open({ role: 'prefer-replica' });
    await world.at(2).kill();
    link.hold();
    await replicas.client.set('item', 'newest');
    await inUse(replicas, []);
    expect(await replicas.client.get('item')).toBe('newest');
    await world.at(2).start();
    link.release();
    await inUse(replicas, [1, 2]);
  });

  it('are found with node-redis as well, and are not checked without maxLagMs', async () => {
    const primary = createClient({ socket: { port: world.at(0).port } });
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', common());
    closing.push(() => replicas.client.close());
    await replicas.client.connect();
    await inUse(replicas, [1, 2]);
    link.hold();
    await replicas.client.set('item', 'again');
    await inUse(replicas, [2]);
    // One connection of the application, one that asks.
    await until('there are two', async () => (await world.at(0).connections()) === 2);
    await replicas.balancer.close();
    await until('it asks no longer', async () => (await world.at(0).connections()) === 1);
  });
});
