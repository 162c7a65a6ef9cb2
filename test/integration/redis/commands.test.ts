import { isEvenkeelError } from 'evenkeel';
import { createReplicas, type Replicas, type ReplicasOptions } from 'evenkeel/redis';
import { FakeResolver } from 'evenkeel/testing';
import { Command, Redis, type RedisOptions } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { neverReads, readCommandNames } from '../../../src/adapter/redis/read-commands.js';
import { noRedis, type RedisWorld, startRedis, titled } from '../../support/databases/redis.js';
import { hasIpv6, Ipv6Door, needsIpv6 } from '../../support/pods/ipv6.js';
import { freePort } from '../../support/programs/free-port.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';

const PASSWORD = 'shop-secret';

/** What users of ioredis do, with replicas behind their client. */
describe.skipIf(noRedis)(titled('a client of ioredis with replicas'), () => {
  let world: RedisWorld;
  const opened: Replicas<Redis>[] = [];

  const open = async (given: RedisOptions = {}, options: ReplicasOptions = {}): Promise<Redis> => {
    const resolver = new FakeResolver();
    resolver.update(world.at(1).endpoint);
    const primary = new Redis({ port: world.at(0).port, password: PASSWORD, ...given });
    primary.on('error', () => {});
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', { resolver, role: 'replica', ...options });
    opened.push(replicas);
    await primary.ping();
    await replicas.balancer.acquire().then((lease) => lease.end({ kind: 'cancelled' }));
    return replicas.client;
  };
  /** What each server runs because of `work`: the primary's, the replica's. */
  const ran = async (work: () => unknown): Promise<readonly [readonly string[], readonly string[]]> => {
    const before = await Promise.all(world.all.map((server) => server.commandCounts()));
    await work();
    const after = await Promise.all(world.all.map((server) => server.commandCounts()));
    const [first, second] = after.map((counts, index) =>
      [...counts.entries()]
        .filter(([name, count]) => count > (before[index]?.get(name) ?? 0) && !own.test(name))
        .map(([name]) => name)
        .sort(),
    );
    return [first ?? [], second ?? []];
  };
  /** What connections send about themselves, and what the test asks. */
  const own = /^(?:info|ping|auth|hello|replconf|client\|setinfo|client\|list|command|select)$/;

  beforeAll(async () => {
    world = await startRedis(1, { password: PASSWORD });
    await world.at(0).command('HSET', 'shop:order', 'id', '7', 'state', 'paid');
    await world.at(0).command('SET', 'shop:item', 'seven');
    await world.at(0).command('SADD', 'shop:set', 'a', 'b');
    await until('it has them', async () => (await world.at(1).command('DBSIZE')) === 3);
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    for (const { client } of opened.splice(0)) if (client.status !== 'end') await client.quit();
    await until('nothing is left open', async () => {
      const open = await Promise.all(world.all.map((server) => server.connections()));
      return open.every((count) => count === 0);
    });
  });

  it('reads from replicas with every form of a command', async () => {
    const redis = await open({ keyPrefix: 'shop:' });
    const [primary, replica] = await ran(async () => {
      expect(await redis.get('item')).toBe('seven');
      expect(await redis.getBuffer('item')).toEqual(Buffer.from('seven'));
      expect(await redis.hgetall('order')).toEqual({ id: '7', state: 'paid' });
      expect(await redis.hgetall(Buffer.from('order'))).toEqual({ id: '7', state: 'paid' });
      expect(await redis.mget(['item', 'nothing'])).toEqual(['seven', null]);
      expect(await redis.exists('item', 'nothing')).toBe(1);
      expect(await redis.call('get', 'item')).toBe('seven');
      expect(await redis.callBuffer('strlen', 'item')).toBe(5);
      expect((await redis.smembers('set')).sort()).toEqual(['a', 'b']);
      const told = await new Promise((resolve, reject) => {
        redis.get('item', (error, value) => (error ? reject(error) : resolve(value)));
      });
      expect(told).toBe('seven');
    });
    expect(primary).toEqual([]);
    expect(replica).toEqual(['exists', 'get', 'hgetall', 'mget', 'smembers', 'strlen']);
  });

  it('returns errors of commands to their caller, once', async () => {
    const redis = await open();
    const [primary] = await ran(async () => {
      await expect(redis.get('shop:order')).rejects.toThrow('WRONGTYPE');
      await expect(redis.call('GET')).rejects.toThrow('wrong number of arguments');
      const told = await new Promise((resolve) => redis.get('shop:order', resolve));
      expect(String(told)).toContain('WRONGTYPE');
      const answers = await redis.pipeline().get('shop:item').get('shop:order').exec();
      expect(answers?.[0]).toEqual([null, 'seven']);
      expect(String(answers?.[1]?.[0])).toContain('WRONGTYPE');
    });
    expect(primary).toEqual([]);
  });

  it('sends to the primary every command that must not go to a replica', async () => {
    const redis = await open();
    redis.defineCommand('readItem', { numberOfKeys: 1, lua: "return redis.call('get', KEYS[1])", readOnly: true });
    const [, replica] = await ran(async () => {
      await redis.set('written', 1);
      await redis.getset('written', 2);
      await redis.scan(0);
      await redis.hscan('shop:order', 0);
      for await (const _ of redis.scanStream());
      for await (const _ of redis.sscanStream('shop:set'));
      await redis.xread('STREAMS', 'stream', '0');
      await redis.xread('BLOCK', 1, 'STREAMS', 'stream', '0');
      await redis.blpop('list', 0.01);
      await redis.eval("return redis.call('get', KEYS[1])", 1, 'shop:item');
      await redis.call('EVAL_RO', "return redis.call('get', KEYS[1])", '1', 'shop:item');
      expect(await (redis as unknown as { readItem(key: string): Promise<string> }).readItem('shop:item')).toBe(
        'seven',
      );
      await redis.script('EXISTS', 'a');
      await redis.publish('news', 'none');
      await redis.config('GET', 'maxmemory');
      await redis.client('GETNAME');
      await redis.object('ENCODING', 'shop:item');
      await redis.touch('shop:item');
      await redis.sort('shop:set', 'ALPHA');
      await redis.del('written');
    });
    // What the primary replicates.
    expect(replica).toEqual(['del', 'publish', 'set']);
  });

  it('keeps transactions on the primary, with the reads that belong to them', async () => {
    const redis = await open();
    const [, replica] = await ran(async () => {
      expect(await redis.multi().get('shop:item').hget('shop:order', 'id').exec()).toEqual([
        [null, 'seven'],
        [null, '7'],
      ]);
      await redis.watch('shop:item');
      expect(await redis.get('shop:item')).toBe('seven');
      expect(await redis.pipeline().get('shop:item').exec()).toEqual([[null, 'seven']]);
      expect(await redis.multi().get('shop:item').exec()).toEqual([[null, 'seven']]);
      await redis.multi({ pipeline: false });
      expect(await redis.get('shop:item')).toBe('QUEUED');
      expect(await redis.exec()).toEqual([[null, 'seven']]);
      await redis.call('WATCH', 'shop:item');
      expect(await redis.get('shop:item')).toBe('seven');
      await redis.unwatch();
    });
    expect(replica).toEqual([]);
    const [primary] = await ran(() => redis.get('shop:item'));
    expect(primary).toEqual([]);
  });

  it('sends a pipeline of reads to one replica, and any other pipeline to the primary', async () => {
    const redis = await open({ keyPrefix: 'shop:' });
    const reads = await ran(async () => {
      const answers = await redis.pipeline().get('item').hgetall('order').getBuffer('item').exec();
      expect(answers).toEqual([
        [null, 'seven'],
        [null, { id: '7', state: 'paid' }],
        [null, Buffer.from('seven')],
      ]);
      expect(await redis.pipeline([['get', 'item']]).exec()).toEqual([[null, 'seven']]);
      const told = await new Promise((resolve) =>
        redis
          .pipeline()
          .get('item')
          .exec((_, result) => resolve(result)),
      );
      expect(told).toEqual([[null, 'seven']]);
      expect(await redis.pipeline().exec()).toEqual([]);
    });
    expect(reads).toEqual([[], ['get', 'hgetall']]);
    const [primary] = await ran(async () => {
      await redis.pipeline().get('item').set('written', 1).exec();
      await redis.pipeline([['multi'], ['get', 'item'], ['exec']]).exec();
      await redis.del('written');
    });
    expect(primary).toEqual(expect.arrayContaining(['get', 'set']));
  });

  it('works with auto-pipelining', async () => {
    const redis = await open({ enableAutoPipelining: true });
    const [primary, replica] = await ran(async () => {
      const answers = await Promise.all([redis.get('shop:item'), redis.get('shop:item'), redis.incr('count')]);
      expect(answers.slice(0, 2)).toEqual(['seven', 'seven']);
      await redis.del('count');
    });
    expect(primary).toEqual(['del', 'incr']);
    expect(replica).toContain('get');
  });

  it('reads from the primary while another database is selected', async () => {
    const redis = await open();
    await redis.select(3);
    const [primary] = await ran(async () => expect(await redis.get('shop:item')).toBeNull());
    expect(primary).toEqual(['get']);
    await redis.select(0);
    const [none] = await ran(async () => expect(await redis.get('shop:item')).toBe('seven'));
    expect(none).toEqual([]);
  });

  it('behaves otherwise like the client it was made from', async () => {
    const redis = await open({ db: 0, connectionName: 'shop' });
    expect(redis).toBeInstanceOf(Redis);
    expect(redis.status).toBe('ready');
    expect(redis.on).toBe(redis.on);
    expect(redis.on('anything', () => {})).toBe(redis);
    const subscriber = redis.duplicate();
    const heard = new Promise((resolve) => subscriber.on('message', (_, text) => resolve(text)));
    await subscriber.subscribe('news');
    await redis.publish('news', 'hello');
    expect(await heard).toBe('hello');
    await subscriber.quit();
  });

  it('may be patched like a client', async () => {
    const redis = await open();
    const seen: string[] = [];
    const send = redis.sendCommand;
    redis.sendCommand = (command) => {
      seen.push((command as unknown as { name: string }).name);
      return send(command);
    };
    expect(await redis.sendCommand(new Command('get', ['shop:item'], { replyEncoding: 'utf8' }))).toBe('seven');
    await redis.set('written', 1);
    await redis.del('written');
    expect(seen).toEqual(['get']);
  });

  it('reads from replicas with commands that the application names', async () => {
    const redis = await open({}, { readCommands: ['LOLWUT'] });
    const [primary, replica] = await ran(() => redis.call('lolwut'));
    expect([primary, replica]).toEqual([[], ['lolwut']]);
  });

  it('quits and disconnects as a whole; close leaves the primary open', async () => {
    const quit = await open();
    expect(await quit.quit()).toBe('OK');
    await expect(quit.get('shop:item')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    const cut = await open();
    const lost = cut.get('shop:item').catch((error) => error);
    cut.disconnect();
    await lost;
    await until('it has ended', () => cut.status === 'end');
    const closed = await open({}, { role: 'prefer-replica' });
    await opened.at(-1)?.close();
    expect(await closed.get('shop:item')).toBe('seven');
  });

  it('refuses clients and options that it cannot work with', async () => {
    const primary = new Redis({ lazyConnect: true });
    const refused = (make: () => unknown): unknown => {
      try {
        make();
      } catch (error) {
        return isEvenkeelError(error, 'EVENKEEL_OPTION') && error.message;
      }
      return undefined;
    };
    expect(refused(() => createReplicas({} as never, 'redis.shop:6379'))).toContain('ioredis');
    expect(refused(() => createReplicas(new Redis.Cluster([], { lazyConnect: true }) as never, 'a.b:1'))).toContain(
      'Cluster',
    );
    expect(refused(() => createReplicas(primary, 7 as never))).toContain('target');
    const options = (given: object): unknown => refused(() => createReplicas(primary, 'redis.shop:6379', given));
    expect(options({ role: 'primary' })).toContain('role');
    expect(options({ readCommands: ['SCAN'] })).toContain('readCommands');
    expect(options({ probeIntervalMs: 0 })).toContain('probeIntervalMs');
    expect(options({ fallBack: 'error' })).toContain('fallBack');
    expect(options({ clientOptions: 'secret' })).toContain('clientOptions');
    expect(options({ clientOptions: 'secret' })).not.toContain('secret');
  });

  it('gives the reason why it cannot log in', async () => {
    const resolver = new FakeResolver();
    resolver.update(world.at(1).endpoint);
    const primary = new Redis({ port: world.at(0).port, password: PASSWORD });
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', {
      resolver,
      role: 'replica',
      waitTimeoutMs: 1_000,
      clientOptions: { password: 'wrong' },
    });
    opened.push(replicas);
    await until('it was refused', () => replicas.balancer.snapshot().endpoints[0]?.state === 'backoff');
    const error = await replicas.client.get('shop:item').catch((cause) => cause);
    expect(isEvenkeelError(error)).toBe(true);
    expect(String(error)).toContain('WRONGPASS');
  });

  it.runIf(hasIpv6)(titleOf('accepts an IPv6 address in its target', hasIpv6, needsIpv6), async () => {
    const { port } = world.at(1);
    await using door = await Ipv6Door.open(port);
    const primary = new Redis({ port: world.at(0).port, password: PASSWORD });
    const replicas = createReplicas(primary, `[::1]:${port}`, { role: 'replica' });
    try {
      await replicas.balancer.ready();
      expect(await replicas.client.get('shop:item')).toBe('seven');
      expect(door.accepted).toBeGreaterThan(0);
    } finally {
      await replicas.client.quit();
    }
  });

  it('says so if a server is a node of a cluster', async () => {
    const args = ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())];
    await using cluster = await startRedis(0, { args });
    const resolver = new FakeResolver();
    resolver.update(cluster.at(0).endpoint);
    const primary = new Redis({ port: world.at(0).port, password: PASSWORD });
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', {
      resolver,
      role: 'replica',
      clientOptions: { password: undefined },
    });
    opened.push(replicas);
    await expect(replicas.client.get('shop:item')).rejects.toThrow('node of a Redis Cluster');
  });

  it('knows which commands only read', async () => {
    const readonly = new Set<string>();
    const all = (await world.at(1).command('COMMAND')) as [string, number, string[]][];
    for (const [name, , flags] of all) if (flags.includes('readonly')) readonly.add(name);
    const known = new Set(all.map(([name]) => name));
    const listed = readCommandNames.filter((name) => known.has(name));
    // None of ours writes or blocks.
    expect(listed.filter((name) => !readonly.has(name))).toEqual([]);
    // What the server has and we leave to the primary, each for its reason.
    const left = [...readonly].filter((name) => !readCommandNames.includes(name)).sort();
    const scripts = ['eval_ro', 'evalsha_ro', 'fcall_ro'];
    expect(left).toEqual(
      [...scripts, 'lolwut', 'touch', ...[...neverReads].filter((name) => readonly.has(name))].sort(),
    );
  });
});
