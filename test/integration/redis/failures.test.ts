import { roundRobin } from 'evenkeel';
import { createReplicas, type Replicas, type ReplicasOptions } from 'evenkeel/redis';
import { FakeResolver } from 'evenkeel/testing';
import { Redis, type RedisOptions } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { noRedis, type RedisServer, type RedisWorld, startRedis, titled } from '../../support/databases/redis.js';
import { until } from '../../support/until.js';
import { maxOverMean, PROOF, report } from '../mysql2/support/traffic.js';

const WORKERS = 30;
const READS = PROOF ? 200_000 : 10_000;

describe.skipIf(noRedis)(titled('reads over Redis replicas'), () => {
  let world: RedisWorld;
  let primary: Redis;
  let replicas: Replicas<Redis>;

  const open = async (options: ReplicasOptions = {}, client: RedisOptions = {}): Promise<void> => {
    const resolver = new FakeResolver();
    resolver.update(world.at(1).endpoint, world.at(2).endpoint);
    primary = new Redis({ port: world.at(0).port, maxRetriesPerRequest: 1, ...client });
    primary.on('error', () => {});
    replicas = createReplicas(primary, 'redis-replicas.shop:6379', {
      resolver,
      role: 'replica',
      probeIntervalMs: 50,
      ...options,
    });
    await allReady();
  };
  const allReady = (count = 2): Promise<void> =>
    until(`${count} replicas can be read from`, () => usable().length === count);
  const usable = (): readonly number[] =>
    replicas.balancer
      .snapshot()
      .endpoints.filter(({ state, weight }) => state === 'ready' && weight > 0)
      .map(({ key }) => Number(key.split(':')[1]));
  const counts = (name: string): Promise<readonly number[]> =>
    Promise.all(world.all.map(async (server) => (await server.commandCounts()).get(name) ?? 0));

  beforeAll(async () => {
    world = await startRedis(2);
    await world.at(0).command('SET', 'item:7', 'seven');
    await until('replicas have it', async () => {
      const answers = await Promise.all([1, 2].map((index) => world.at(index).command('GET', 'item:7')));
      return answers.every((answer) => answer === 'seven');
    });
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    await replicas?.client.quit().catch(() => primary.disconnect());
    for (const server of world.all) {
      await until('nothing is left open', async () => !server.running || (await server.connections()) === 0);
    }
  });

  it('spreads reads evenly, and sends writes to the primary', async () => {
    await open({ picker: roundRobin() });
    const redis = replicas.client;
    const before = { get: await counts('get'), set: await counts('set') };
    const readers = new Readers(redis, WORKERS, READS);
    await readers.finished();
    await redis.set('written', '1');
    const [, ...gets] = (await counts('get')).map((count, index) => count - (before.get[index] as number));
    const spread = maxOverMean(new Map(gets.entries()));
    report('even spread', { reads: readers.total, 'max/mean': spread.toFixed(4) });
    expect(readers.errors.map(String)).toEqual([]);
    expect(gets[0] as number).toBeGreaterThan(0);
    expect((gets[0] as number) + (gets[1] as number)).toBe(READS);
    expect(spread).toBeLessThanOrEqual(1.01);
    expect((await counts('get'))[0]).toBe(before.get[0]);
    expect((await counts('set'))[0]).toBe((before.set[0] as number) + 1);
  });

  it('answers 10,000 reads at once', async () => {
    await open();
    const answers = await Promise.all(Array.from({ length: 10_000 }, () => replicas.client.get('item:7')));
    expect(new Set(answers)).toEqual(new Set(['seven']));
  });

  it('fails no read when a replica is killed', async () => {
    await open();
    for (let round = 0; round < (PROOF ? 20 : 2); round++) {
      const replica = world.at(1 + (round % 2));
      const readers = new Readers(replicas.client, WORKERS);
      await more(readers, 1_000);
      await replica.kill();
      await more(readers, 1_000);
      await replica.start();
      await allReady();
      await readers.stop();
      report('kill -9', { reads: readers.total, failed: readers.errors.length });
      expect(readers.errors.map(String)).toEqual([]);
      expect(readers.wrong).toBe(0);
    }
  });

  it('fails none of 2,000 reads in flight on a replica that is killed', async () => {
    await open({ picker: roundRobin() });
    for (const index of PROOF ? [1, 2, 1, 2] : [1]) {
      const dying = world.at(index);
      dying.freeze();
      const reads = Array.from({ length: 4_000 }, () => replicas.client.get('item:7'));
      const before = replicas.balancer.snapshot();
      const lost = before.endpoints.find(({ key }) => key.endsWith(`:${dying.port}`))?.inFlight ?? 0;
      await dying.kill();
      const answers = await Promise.allSettled(reads);
      const wrong = answers.filter((answer) => answer.status !== 'fulfilled' || answer.value !== 'seven');
      report('kill -9 with 2,000 in flight', { failed: wrong.length });
      expect(wrong).toEqual([]);
      // Each of them was sent to one more server, and no further.
      const { reset } = replicas.balancer.snapshot().counts.retries;
      expect(lost).toBeGreaterThanOrEqual(2_000);
      expect(reset - before.counts.retries.reset).toBe(lost);
      await dying.start();
      await allReady();
    }
  });

  it('makes reads wait while all replicas are gone, unless the primary may serve them', async () => {
    await open();
    const readers = new Readers(replicas.client, WORKERS);
    for (let round = 0; round < (PROOF ? 10 : 2); round++) {
      await more(readers, 500);
      await Promise.all([world.at(1).kill(), world.at(2).kill()]);
      await Promise.all([world.at(1).start(), world.at(2).start()]);
      await more(readers, 500);
      await allReady();
    }
    await readers.stop();
    expect(readers.errors.map(String)).toEqual([]);
    expect(readers.wrong).toBe(0);
  });

  it('fails no read while replicas are restarted one after the other', async () => {
    await open();
    const readers = new Readers(replicas.client, WORKERS);
    for (const replica of [world.at(1), world.at(2)]) {
      await more(readers, 500);
      await replica.stop();
      await more(readers, 500);
      await replica.start();
      await allReady();
    }
    await readers.stop();
    report('rolling restart', { reads: readers.total, failed: readers.errors.length });
    expect(readers.errors.map(String)).toEqual([]);
    expect(readers.wrong).toBe(0);
  });

  it('repeats a pipeline as a whole when its replica is killed', async () => {
    await open();
    const redis = replicas.client;
    let stopped = false;
    let done = 0;
    const work = Array.from({ length: 8 }, async () => {
      while (!stopped) {
        const pipeline = redis.pipeline();
        for (let i = 0; i < 20; i++) pipeline.get('item:7');
        const answers = await pipeline.exec();
        expect(answers).toEqual(Array.from({ length: 20 }, () => [null, 'seven']));
        done++;
      }
    });
    await until('pipelines run', () => done > 20);
    await world.at(1).kill();
    const atKill = done;
    await until('pipelines go on', () => done > atKill + 20);
    stopped = true;
    await Promise.all(work);
    await world.at(1).start();
    await allReady();
  });

  it('reads from no server that was promoted', async () => {
    await open();
    const promoted = world.at(1);
    await promoted.promote();
    await allReady(1);
    const before = await gets(promoted);
    const readers = new Readers(replicas.client, WORKERS, 500);
    await readers.finished();
    expect(readers.errors.map(String)).toEqual([]);
    expect(await gets(promoted)).toBe(before);
    await promoted.follow(world.at(0));
    await allReady();
  });

  it('reads from no replica that lost its primary', async () => {
    await open();
    await world.at(0).stop();
    await allReady(0);
    const waiting = replicas.client.get('item:7');
    await world.at(0).start();
    // It waited for a replica, and none was usable before the primary was back.
    expect(await waiting).toBe('seven');
    await allReady();
  });

  it('reads from the primary while no replica can be read from, if that is allowed', async () => {
    await open({ role: 'prefer-replica' });
    const before = await gets(world.at(0));
    const readers = new Readers(replicas.client, WORKERS);
    await more(readers, 500);
    await Promise.all([world.at(1).kill(), world.at(2).kill()]);
    await more(readers, 1_000);
    await readers.stop();
    expect(readers.errors.map(String)).toEqual([]);
    expect(readers.wrong).toBe(0);
    expect(await gets(world.at(0))).toBeGreaterThan(before);
    await Promise.all([world.at(1).start(), world.at(2).start()]);
    await allReady();
  });

  it('uses another replica when one is loading its data, or may not answer without its primary', async () => {
    await open({ probeIntervalMs: 3_600_000 });
    const stale = world.at(1);
    await stale.command('CONFIG', 'SET', 'replica-serve-stale-data', 'no');
    await stale.command('REPLICAOF', '127.0.0.1', '1');
    const readers = new Readers(replicas.client, 4, 200);
    await readers.finished();
    expect(readers.errors.map(String)).toEqual([]);
    expect(readers.wrong).toBe(0);
    expect(usable()).toEqual([world.at(2).port]);
    await stale.command('CONFIG', 'SET', 'replica-serve-stale-data', 'yes');
    await stale.follow(world.at(0));
    await world.inStep();
  });

  it('returns one timeout to the caller of a read, whatever the replicas answer later', async () => {
    await open({}, { commandTimeout: 300 });
    const redis = replicas.client;
    const frozen = [world.at(1), world.at(2)];
    for (const server of frozen) server.freeze();
    try {
      const reads = await Promise.allSettled(Array.from({ length: 6 }, () => redis.get('item:7')));
      const errors = reads.map((read) => read.status === 'rejected' && read.reason.message);
      expect(new Set(errors)).toEqual(new Set(['Command timed out']));
    } finally {
      for (const server of frozen) server.thaw();
    }
    await allReady();
    const lengths = await Promise.all(Array.from({ length: 4 }, () => redis.strlen('item:7')));
    expect(lengths).toEqual([5, 5, 5, 5]);
    expect(replicas.balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0]);
  });

  it('moves the reads that a frozen replica does not answer to another one', async () => {
    await open({ picker: roundRobin() });
    const redis = replicas.client;
    const frozen = world.at(1);
    frozen.freeze();
    try {
      const pipeline = () => redis.pipeline().get('item:7').strlen('item:7').exec();
      const reads = Array.from({ length: 500 }, () => [redis.get('item:7'), pipeline()] as const);
      const values = await Promise.all(reads.map(([one]) => one));
      expect(new Set(values)).toEqual(new Set(['seven']));
      for (const answers of await Promise.all(reads.map(([, many]) => many))) {
        expect(answers).toEqual([
          [null, 'seven'],
          [null, 5],
        ]);
      }
      const { endpoints, counts } = replicas.balancer.snapshot();
      // Its connection was not cut, which moves them too, but only after ten seconds.
      expect(endpoints.map(({ state }) => state)).toEqual(['ready', 'ready']);
      // Each was sent once more, at no cost.
      expect(counts.retries.reset).toBe(500);
      expect(counts.overBudget).toBe(0);
    } finally {
      frozen.thaw();
    }
    await allReady();
    expect(await Promise.all(Array.from({ length: 4 }, () => redis.strlen('item:7')))).toEqual([5, 5, 5, 5]);
    expect(replicas.balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0]);
  });

  it('leaves the reads where they are while no other replica can take them', async () => {
    await open({ role: 'prefer-replica' });
    const before = await gets(world.at(0));
    const frozen = [world.at(1), world.at(2)];
    for (const server of frozen) server.freeze();
    const reads = Array.from({ length: 20 }, () => replicas.client.get('item:7'));
    await allReady(0);
    for (const server of frozen) server.thaw();
    expect(new Set(await Promise.all(reads))).toEqual(new Set(['seven']));
    expect(await gets(world.at(0))).toBe(before);
    await allReady();
  });

  it('connects again at once, and reports no failure, when servers close idle connections', async () => {
    const states: string[] = [];
    await open({ probeIntervalMs: 60_000, observer: { subchannelChanged: ({ to }) => states.push(to) } });
    const servers = [world.at(1), world.at(2)];
    for (const server of servers) await server.command('CONFIG', 'SET', 'timeout', '1');
    try {
      const connections = (): number => states.filter((state) => state === 'ready').length;
      await until('each connection was closed and opened again', () => connections() >= 4);
    } finally {
      for (const server of servers) await server.command('CONFIG', 'SET', 'timeout', '0');
    }
    expect(states).not.toContain('backoff');
    await allReady();
    expect(await replicas.client.get('item:7')).toBe('seven');
  });

  it('sends no reads to a replica that does not answer', async () => {
    await open();
    const frozen = world.at(1);
    frozen.freeze();
    try {
      await allReady(1);
      const readers = new Readers(replicas.client, 4, 200);
      await readers.finished();
      expect(readers.errors.map(String)).toEqual([]);
    } finally {
      frozen.thaw();
    }
    await allReady();
  });

  const gets = async (server: RedisServer): Promise<number> => (await server.commandCounts()).get('get') ?? 0;
  const more = async (readers: Readers, count: number): Promise<void> => {
    const goal = readers.total + count;
    await until('reads go on', () => readers.total >= goal || readers.errors.length > 0);
  };
});

/** Workers that send one read after another until they are stopped. */
class Readers {
  total = 0;
  /** Answers that were not what the primary was told. */
  wrong = 0;
  readonly errors: Error[] = [];
  #stopped = false;
  readonly #work: Promise<unknown>;

  constructor(redis: Redis, workers: number, reads: number = Number.POSITIVE_INFINITY) {
    let left = reads;
    const read = async (): Promise<void> => {
      while (!this.#stopped && left-- > 0) {
        try {
          if ((await redis.get('item:7')) !== 'seven') this.wrong++;
          this.total++;
        } catch (error) {
          this.errors.push(error as Error);
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    this.#work = Promise.all(Array.from({ length: workers }, read));
  }

  async finished(): Promise<void> {
    await this.#work;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#work;
  }
}
