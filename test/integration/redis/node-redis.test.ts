import { roundRobin } from 'evenkeel';
import { createReplicas, type Replicas, type ReplicasOptions } from 'evenkeel/redis';
import { FakeResolver } from 'evenkeel/testing';
import { createClient, createCluster } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { noRedis, type RedisWorld, startRedis, titled } from '../../support/databases/redis.js';
import { until } from '../../support/until.js';

const PASSWORD = 'shop-secret';
/** `RESP_TYPES.BLOB_STRING`, which 5.0 does not export. */
const BLOB_STRING = 36;

/** What users of node-redis do, with replicas behind their client. */
describe.skipIf(noRedis)(titled('a client of node-redis with replicas'), () => {
  let world: RedisWorld;
  const clientOf = () =>
    createClient({ url: `redis://:${PASSWORD}@127.0.0.1:${world.at(0).port}` }).on('error', () => {});
  type Client = ReturnType<typeof clientOf>;
  const opened: Replicas<Client>[] = [];

  const open = async (options: ReplicasOptions = {}): Promise<Client> => {
    const resolver = new FakeResolver();
    resolver.update(world.at(1).endpoint, world.at(2).endpoint);
    const replicas = createReplicas(clientOf(), 'redis-replicas.shop:6379', {
      resolver,
      role: 'replica',
      probeIntervalMs: 50,
      ...options,
    });
    opened.push(replicas);
    const client = await replicas.client.connect();
    expect(client).toBe(replicas.client);
    await usable(2);
    return client;
  };
  const usable = (count: number): Promise<void> =>
    until(`${count} replicas can be read from`, () => {
      const { endpoints } = (opened.at(-1) as Replicas<Client>).balancer.snapshot();
      return endpoints.filter(({ state, weight }) => state === 'ready' && weight > 0).length === count;
    });
  /** What the primary ran, and what the replicas ran. */
  const ran = async (work: () => unknown): Promise<readonly [readonly string[], readonly string[]]> => {
    const counts = (): Promise<Map<string, number>[]> => Promise.all(world.all.map((server) => server.commandCounts()));
    const before = await counts();
    await work();
    const [first, ...others] = (await counts()).map((after, index) =>
      [...after.keys()].filter((name) => (after.get(name) ?? 0) > (before[index]?.get(name) ?? 0) && !own.test(name)),
    );
    return [(first ?? []).sort(), [...new Set(others.flat())].sort()];
  };
  /** What connections send about themselves, and what the test asks. */
  const own = /^(?:info|ping|auth|hello|replconf|client\|setinfo|client\|list|select)$/;

  beforeAll(async () => {
    world = await startRedis(2, { password: PASSWORD });
    await world.at(0).command('HSET', 'order', 'id', '7', 'state', 'paid');
    await world.at(0).command('SET', 'item', 'seven');
    await world.at(0).command('ZADD', 'scores', '1', 'a', '2', 'b');
    for (const server of world.all.slice(1)) {
      await until('it is replicated', async () => (await server.command('DBSIZE')) === 3);
    }
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    for (const replicas of opened.splice(0)) {
      if (replicas.client.isOpen) replicas.client.destroy();
      await replicas.close();
    }
    for (const server of world.all) await until('nothing is left open', async () => (await server.connections()) === 0);
  });

  it('moves the reads that a frozen replica does not answer to another one', async () => {
    const redis = await open({ picker: roundRobin() });
    const { balancer } = opened.at(-1) as Replicas<Client>;
    const frozen = world.at(1);
    frozen.freeze();
    try {
      const reads = Array.from({ length: 200 }, () => redis.get('item'));
      expect(new Set(await Promise.all(reads))).toEqual(new Set(['seven']));
      const { endpoints, counts } = balancer.snapshot();
      // Its connection was not cut, which moves them too, but only after ten seconds.
      expect(endpoints.map(({ state }) => state)).toEqual(['ready', 'ready']);
      expect(counts.retries.reset).toBe(100);
    } finally {
      frozen.thaw();
    }
    await usable(2);
    expect(await Promise.all(Array.from({ length: 4 }, () => redis.strLen('item')))).toEqual([5, 5, 5, 5]);
    expect(balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0]);
  });

  it('reads from replicas with every form of a command', async () => {
    const redis = await open();
    const [primary, replica] = await ran(async () => {
      expect(await redis.get('item')).toBe('seven');
      expect(await redis.GET('item')).toBe('seven');
      expect(await redis.hGetAll('order')).toEqual({ id: '7', state: 'paid' });
      expect(await redis.zRangeWithScores('scores', 0, -1)).toEqual([
        { value: 'a', score: 1 },
        { value: 'b', score: 2 },
      ]);
      expect(await redis.mGet(['item', 'nothing'])).toEqual(['seven', null]);
      expect(await redis.sendCommand(['STRLEN', 'item'])).toBe(5);
      const bytes = redis.withTypeMapping({ [BLOB_STRING]: Buffer });
      expect(await bytes.get('item')).toEqual(Buffer.from('seven'));
      expect(await redis.withAbortSignal(AbortSignal.timeout(60_000)).get('item')).toBe('seven');
      await expect(redis.withAbortSignal(AbortSignal.abort()).get('item')).rejects.toThrow('aborted');
      await expect(redis.get('order')).rejects.toThrow('WRONGTYPE');
      await expect(redis.get(7 as never)).rejects.toThrow('must be of type');
    });
    expect(primary).toEqual([]);
    expect(replica).toEqual(['get', 'hgetall', 'mget', 'strlen', 'zrange']);
  });

  it('sends to the primary every command that must not go to a replica', async () => {
    const redis = await open();
    const [, replica] = await ran(async () => {
      await redis.set('written', '1');
      await redis.getSet('written', '2');
      await redis.getDel('written');
      await redis.scan('0');
      for await (const _ of redis.scanIterator());
      for await (const _ of redis.hScanIterator('order'));
      await redis.xRead({ key: 'stream', id: '0' });
      await redis.blPop('list', 0.01);
      await redis.eval("return redis.call('get', KEYS[1])", { keys: ['item'] });
      await redis.evalRo("return redis.call('get', KEYS[1])", { keys: ['item'] });
      await redis.configGet('maxmemory');
      await redis.objectEncoding('item');
      await redis.touch('item');
      expect(await redis.multi().get('item').exec()).toEqual(['seven']);
      expect(await redis.multi().get('item').execAsPipeline()).toEqual(['seven']);
      await redis.watch('item');
      expect(await redis.get('item')).toBe('seven');
      expect(await redis.multi().get('item').exec()).toEqual(['seven']);
      await redis.select(3);
      expect(await redis.get('item')).toBeNull();
      await redis.select(0);
    });
    // What the primary replicates.
    expect(replica).toEqual(['del', 'set']);
    expect((await ran(() => redis.get('item')))[0]).toEqual([]);
  });

  it('subscribes on the primary, and duplicates it', async () => {
    const redis = await open();
    const subscriber = await redis.duplicate().connect();
    const heard = new Promise((resolve) => void subscriber.subscribe('news', resolve));
    await until('it is heard', async () => (await redis.publish('news', 'hello')) > 0);
    expect(await heard).toBe('hello');
    await subscriber.close();
  });

  it('fails no read when a replica is killed or promoted, or all are gone', async () => {
    const redis = await open({ role: 'prefer-replica' });
    const errors: unknown[] = [];
    let total = 0;
    let isOver = false;
    const readers = Array.from({ length: 30 }, async () => {
      while (!isOver) {
        const value = await redis.get('item').catch((error) => errors.push(error));
        if (value !== 'seven') errors.push(value);
        total++;
      }
    });
    const more = async (): Promise<void> => {
      const goal = total + 1_000;
      await until('reads go on', () => total >= goal || errors.length > 0);
    };
    await more();
    await world.at(1).kill();
    await more();
    await world.at(2).promote();
    await usable(0);
    await more();
    await world.at(1).start();
    await world.at(2).follow(world.at(0));
    await usable(2);
    await more();
    isOver = true;
    await Promise.all(readers);
    expect(errors.map(String)).toEqual([]);
  });

  it('fails none of 2,000 reads in flight on a replica that is killed', async () => {
    const redis = await open({ picker: roundRobin() });
    world.at(1).freeze();
    const reads = Array.from({ length: 4_000 }, () => redis.get('item'));
    await world.at(1).kill();
    const answers = await Promise.allSettled(reads);
    expect(answers.filter((answer) => answer.status !== 'fulfilled' || answer.value !== 'seven')).toEqual([]);
    await world.at(1).start();
    await usable(2);
  });

  it('ends as a whole', async () => {
    for (const end of ['close', 'destroy'] as const) {
      const redis = await open();
      await redis[end]();
      await expect(redis.set('item', 'seven')).rejects.toThrow('closed');
      await expect(redis.get('item')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    }
  });

  it('refuses clients and options that it cannot work with', () => {
    const cluster = createCluster({ rootNodes: [] });
    expect(() => createReplicas(cluster, 'redis-replicas.shop:6379')).toThrow('node-redis');
    const cached = createClient({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 1, evictPolicy: 'LRU' } });
    expect(() => createReplicas(cached, 'redis-replicas.shop:6379')).toThrow('clientSideCache');
  });
});
