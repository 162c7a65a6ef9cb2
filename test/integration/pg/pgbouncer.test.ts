import { createPool, type PgPool, type PgPoolOptions } from 'evenkeel/pg';
import { FakeResolver } from 'evenkeel/testing';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { noPgBouncer, PgBouncer, titled } from '../../support/databases/pgbouncer.js';
import { application, type PostgresWorld, startPostgres } from '../../support/databases/postgres.js';
import type { Readers } from '../../support/readers.js';
import { until } from '../../support/until.js';
import { readers } from './support/traffic.js';

/** A primary and two standbys, with a pod of PgBouncer in front of each, and one more in front of the primary. */
describe.skipIf(noPgBouncer).each(['transaction', 'session'])(titled('PgBouncer with %s pooling'), (mode) => {
  let world: PostgresWorld;
  let bouncers: PgBouncer[] = [];
  const pools: PgPool[] = [];
  const open = (options: PgPoolOptions = {}, pods = bouncers): PgPool => {
    const resolver = new FakeResolver();
    resolver.update(...pods.map(({ endpoint }) => endpoint));
    const pool = createPool({ resolver, ...application, probeIntervalMs: 200, ...options });
    pools.push(pool);
    return pool;
  };
  const at = (index: number): PgBouncer => bouncers[index] as PgBouncer;
  const allReady = (pool: PgPool, count = bouncers.length): Promise<void> =>
    until(
      'all are connected',
      () => pool.balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length === count,
    );
  const more = async (reading: Readers, count: number): Promise<void> => {
    const goal = reading.total + count;
    await until('reads go on', () => reading.total >= goal || reading.errors.length > 0);
  };
  /** The pods that answer. */
  const seen = async (pool: PgPool, count = 8): Promise<number[]> => {
    const clients = await Promise.all(Array.from({ length: count }, () => pool.connect()));
    const ports = clients.map((client) => {
      client.release();
      return (client as unknown as { connection: { stream: { remotePort: number } } }).connection.stream.remotePort;
    });
    return [...new Set(ports)].sort();
  };
  const portsOf = (...indexes: number[]): number[] => indexes.map((index) => at(index).endpoint.port).sort();

  beforeAll(async () => {
    world = await startPostgres(2, { init: ['CREATE TABLE items (id int)'] });
    const settings = { pool_mode: mode, server_login_retry: 1, query_wait_timeout: 3, default_pool_size: 30 };
    const servers = [world.at(0), world.at(1), world.at(2), world.at(0)];
    bouncers = await Promise.all(servers.map((server) => PgBouncer.start(server, settings)));
  });
  afterAll(async () => {
    await Promise.all(bouncers.map((bouncer) => bouncer.close()));
    await world?.close();
  });
  afterEach(async () => {
    for (const one of pools.splice(0)) if (!one.ending) await one.end();
  });

  it('finds the roles of the servers behind it, and spreads statements', async () => {
    const writes = open({ role: 'primary' });
    const reads = open({ role: 'replica' });
    await Promise.all([allReady(writes), allReady(reads)]);
    // Both pods in front of the primary: they are no rivals.
    expect(await seen(writes)).toEqual(portsOf(0, 3));
    expect(await seen(reads)).toEqual(portsOf(1, 2));
    await writes.query('INSERT INTO items VALUES (1)');
    await expect(reads.query('INSERT INTO items VALUES (1)')).rejects.toMatchObject({ code: '25006' });
    const client = await writes.connect();
    await client.query('BEGIN');
    await client.query('INSERT INTO items VALUES (2)');
    await client.query('ROLLBACK');
    client.release();
    expect((await writes.query('SELECT id FROM items')).rows).toEqual([{ id: 1 }]);
  });

  it('a rolling restart of the pods, whether they wait or not, fails no read', async () => {
    const reads = open({ role: 'replica', idempotent: true });
    await allReady(reads);
    const reading = readers(reads, 10);
    for (const [index, signal] of [
      // With session pooling SIGINT waits until clients go, which pools never do.
      [1, mode === 'session' ? 'SIGTERM' : 'SIGINT'],
      [2, 'SIGTERM'],
    ] as const) {
      await more(reading, 100);
      await at(index).stop(signal);
      await more(reading, 100);
      await at(index).start();
      await allReady(reads);
    }
    await more(reading, 100);
    await reading.stop();
    expect(reading.errors.map(String)).toEqual([]);
  });

  it('a server that dies behind its pod fails no read, and is used again when it is back', async () => {
    const reads = open({ role: 'replica', idempotent: true });
    await allReady(reads);
    const reading = readers(reads, 10);
    await more(reading, 100);
    await world.at(1).kill();
    await more(reading, 500);
    await world.at(1).start();
    await until('it gets reads again', async () => (await seen(reads)).length === 2);
    await reading.stop();
    expect(reading.errors.map(String)).toEqual([]);
  });

  it('statements that PgBouncer never passed on go to another pod, even if they may run only once', async () => {
    // Nobody knows roles here, so the pod without a server keeps getting statements until it is ejected.
    const pool = open({ role: 'any' }, [at(1), at(2)]);
    await allReady(pool, 2);
    await world.at(1).stop();
    const probe = new pg.Client({ host: '127.0.0.1', port: at(1).endpoint.port, ...application });
    probe.on('error', () => {});
    await probe.connect().then(
      () => expect(probe.query('SELECT 1')).rejects.toMatchObject({ code: '08P01' }),
      () => {},
    );
    await probe.end().catch(() => {});
    for (let round = 0; round < 30; round++) await pool.query('SELECT 1');
    await world.at(1).start();
  });

  // With session pooling, PAUSE waits until clients go, which pools never do.
  const pausing = async (): Promise<void> => {
    const pool = open({ role: 'any' }, [at(0)]);
    await pool.query('SELECT 1');
    const blocker = new pg.Client({ host: '127.0.0.1', port: world.at(0).port, ...application });
    await blocker.connect();
    await blocker.query('BEGIN');
    await blocker.query('LOCK TABLE items');
    const running = pool.query('SELECT count(*)::int AS n FROM items');
    await until('it runs', async () => {
      const rows = await world.at(0).sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
      return rows.length > 0;
    });
    const paused = at(0).command('PAUSE');
    await blocker.end();
    expect((await running).rows).toHaveLength(1);
    await paused;
    const waiting = pool.query('SELECT 1 AS one');
    await until('it waits', async () => {
      const rows = await at(0).command('SHOW POOLS');
      return rows.some(({ cl_waiting }) => Number(cl_waiting) > 0);
    });
    await at(0).command('RESUME');
    expect((await waiting).rows).toEqual([{ one: 1 }]);
  };
  if (mode === 'transaction') it('PAUSE and RESUME: running and waiting statements are answered', pausing);

  it('a full pod fails no statement: those that do not fit wait', async () => {
    const small = await PgBouncer.start(world.at(0), { pool_mode: mode, max_client_conn: 4 });
    try {
      const pool = open({ role: 'primary' }, [small]);
      const answers = await Promise.all(Array.from({ length: 40 }, () => pool.query('SELECT 1 AS one')));
      expect(answers.every(({ rows }) => rows[0].one === 1)).toBe(true);
      expect(pool.totalCount).toBeLessThanOrEqual(4);
    } finally {
      await pools.pop()?.end();
      await small.close();
    }
  });

  it('reports at once what PgBouncer does not accept', async () => {
    for (const options of [
      { statement_timeout: 1_000 },
      { options: '-c geqo=off' },
      { database: 'nowhere' },
      { password: 'wrong' },
      { user: 'nobody' },
    ]) {
      const refused = open(options, [at(0)]).query('SELECT 1');
      // After waitTimeoutMs it would be EVENKEEL_NOT_READY.
      const { code } = await refused.catch((error) => error);
      expect({ code, options }).toEqual({ code: 'EVENKEEL_CONNECT', options });
    }
  });
});
