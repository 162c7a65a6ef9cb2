import { createPool, type PgPool, type PgPoolOptions } from 'evenkeel/pg';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import type { PoolClient } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type Postgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import { until } from '../../support/until.js';
import { ledgerTable, report, Writers } from './support/traffic.js';

const ADDRESSES = ['127.0.0.11', '127.0.0.12', '127.0.0.13'];

/** A primary and two standbys behind one Service; each test leaves another of them as the primary. */
describe.skipIf(noPostgres)(titled('roles of PostgreSQL servers'), () => {
  let world: PostgresWorld;
  let primary: Postgres;
  const pools: PgPool[] = [];
  const open = (options: PgPoolOptions): PgPool => {
    const resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    // On a busy machine a server may take longer to accept than the five seconds of the default.
    const patient = { connectTimeoutMs: 60_000 };
    const pool = createPool({ resolver, ...application, probeIntervalMs: 200, pool: patient, ...options });
    pools.push(pool);
    return pool;
  };
  const standbys = (): Postgres[] => world.all.filter((server) => server !== primary);
  const who = async (pool: PgPool): Promise<string> =>
    (await pool.query({ text: 'SELECT host(inet_server_addr()) AS it', idempotent: true })).rows[0].it;
  /** Who answers a number of statements. */
  const seen = async (pool: PgPool, count = 12): Promise<string[]> => {
    const answers = await Promise.all(Array.from({ length: count }, () => who(pool)));
    return [...new Set(answers)].sort();
  };
  const allReady = (pool: PgPool): Promise<void> =>
    until(
      'all are connected',
      () => pool.balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length === 3,
    );
  const streaming = async (from: Postgres, count: number): Promise<void> =>
    until('standbys follow', async () => {
      const rows = await from.sql("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'");
      return rows.length === count;
    });
  const addressesOf = (servers: readonly Postgres[]): string[] => servers.map(({ address }) => address).sort();

  beforeAll(async () => {
    world = await startPostgres(2, { addresses: ADDRESSES, init: [ledgerTable] });
    primary = world.at(0);
    await streaming(primary, 2);
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    for (const one of pools.splice(0)) await one.end();
  });

  it('send each statement to a server of its role', async () => {
    const any = open({ role: 'any' });
    const writes = open({ role: 'primary' });
    const reads = open({ role: 'replica' });
    const mostly = open({ role: 'prefer-replica' });
    for (const pool of [any, writes, reads, mostly]) await allReady(pool);
    expect(await seen(any, 60)).toEqual(ADDRESSES);
    expect(await seen(writes)).toEqual(addressesOf([primary]));
    expect(await seen(reads, 60)).toEqual(addressesOf(standbys()));
    expect(await seen(mostly, 60)).toEqual(addressesOf(standbys()));
    await writes.query('INSERT INTO ledger VALUES (0)');
    // A server the application itself made read-only is no reason to go elsewhere.
    const client = await writes.connect();
    await client.query('BEGIN READ ONLY');
    await expect(client.query('INSERT INTO ledger VALUES (0)')).rejects.toMatchObject({ code: '25006' });
    client.release();
    await expect(reads.query('INSERT INTO ledger VALUES (0)')).rejects.toMatchObject({ code: '25006' });
    for (const server of standbys()) await server.stop();
    expect(await seen(mostly)).toEqual(addressesOf([primary]));
    const impatient = open({ role: 'replica', waitTimeoutMs: 300 });
    await expect(impatient.query('SELECT 1')).rejects.toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    for (const server of standbys()) await server.start();
    await streaming(primary, 2);
    await until('reads go to standbys again', async () => (await seen(mostly)).length === 2);
  });

  it('send no read to a standby that is behind while another is not', async () => {
    const [late, fresh] = standbys() as [Postgres, Postgres];
    await late.sql("ALTER SYSTEM SET recovery_min_apply_delay = '10s'");
    await late.sql('SELECT pg_reload_conf()');
    const writes = open({ role: 'primary' });
    const reads = open({ role: 'replica', maxLagMs: 1_000 });
    const all = open({ role: 'any', maxLagMs: 1_000 });
    await allReady(reads);
    const writers = new Writers(writes, 1, 1_000_000);
    for (const pool of [reads, all]) {
      await until('the one that is behind gets nothing', async () => !(await seen(pool, 30)).includes(late.address));
    }
    for (let round = 0; round < 10; round++) expect(await seen(reads, 10)).toEqual([fresh.address]);
    await writers.stop();
    expect(writers.errors).toEqual([]);
    await late.sql("ALTER SYSTEM SET recovery_min_apply_delay = '0'");
    await late.sql('SELECT pg_reload_conf()');
    await until('it has caught up', async () => (await seen(reads, 30)).includes(late.address));
    // With nothing new to replay, nobody is behind.
    expect(await seen(open({ role: 'replica', maxLagMs: 500 }), 30)).toEqual(addressesOf(standbys()));
  });

  it('follow an orderly switchover: no write is lost, done twice, or sent to a standby', async () => {
    const writes = open({ role: 'primary' });
    await allReady(writes);
    const [next, other] = standbys() as [Postgres, Postgres];
    const writers = new Writers(writes, 8, 1);
    await until('writes run', () => writers.acknowledged.length > 100);
    const old = primary;
    await old.stop();
    await next.promote();
    const promotedMs = performance.now();
    const before = writers.acknowledged.length;
    await until('writes go on', () => writers.acknowledged.length > before + 50);
    report('switchover', { 'ms to the first write': writers.firstAfter(promotedMs) });
    primary = next;
    await other.follow(next);
    await world.rejoin(old, next);
    await streaming(next, 2);
    await until('writes go on', () => writers.acknowledged.length > before + 200);
    await writers.stop();
    await audit(next, writers);
  });

  it('follow a promotion after a kill with synchronous replication', async () => {
    const [next, other] = standbys() as [Postgres, Postgres];
    await primary.sql(`ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 ("${next.name}")'`);
    await primary.sql('SELECT pg_reload_conf()');
    await until('it waits for its standby', async () => {
      const rows = await primary.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
      return rows.length === 1;
    });
    const writes = open({ role: 'primary' });
    await allReady(writes);
    const writers = new Writers(writes, 8, 10_000_000);
    await until('writes run', () => writers.acknowledged.length > 100);
    const old = primary;
    await old.kill();
    await next.sql("ALTER SYSTEM SET synchronous_standby_names = ''");
    await next.promote();
    const promotedMs = performance.now();
    const before = writers.acknowledged.length;
    await until('writes go on', () => writers.acknowledged.length > before + 50);
    report('promotion after a kill', { 'ms to the first write': writers.firstAfter(promotedMs) });
    primary = next;
    await other.follow(next);
    // The old one comes back and believes it is still the primary: it is on an older timeline.
    await old.start();
    await allReady(writes);
    for (let round = 0; round < 5; round++) expect(await seen(writes, 10)).toEqual([next.address]);
    await writers.stop();
    await audit(next, writers);
    const strays = await old.sql('SELECT count(*)::int AS n FROM ledger WHERE id > $1', [
      Math.max(...writers.acknowledged.slice(0, before)) + 8,
    ]);
    expect(strays).toEqual([{ n: 0 }]);
  });

  const audit = async (server: Postgres, writers: Writers): Promise<void> => {
    const rows = await server.sql('SELECT id, count(*)::int AS n FROM ledger WHERE id >= $1 GROUP BY id', [
      Math.min(...writers.acknowledged),
    ]);
    const counts = new Map(rows.map(({ id, n }) => [id, n]));
    const lost = writers.acknowledged.filter((id) => !counts.has(id));
    const twice = rows.filter(({ n }) => n > 1);
    const surprised = writers.errors.filter(({ code }) => code === '25006');
    report('ledger', {
      acknowledged: writers.acknowledged.length,
      failed: writers.errors.length,
      lost: lost.length,
      twice: twice.length,
    });
    expect({ lost, twice, surprised }).toEqual({ lost: [], twice: [], surprised: [] });
  };
});

describe.skipIf(noPostgres)(titled('a primary that is restarted as a standby just after it was connected to'), () => {
  it('gets no statement of a pool for the primary', async () => {
    await using world = await startPostgres(1, { addresses: ADDRESSES.slice(0, 2) });
    const [old, next] = world.all as readonly Postgres[] as [Postgres, Postgres];
    const resolver = new FakeResolver();
    resolver.update(old.endpoint);
    const clock = new FakeClock();
    // The clock stands still: the next periodic query of its role does not come, and the connection stays young.
    await using pool = createPool({ resolver, ...application, role: 'primary', clock, waitTimeoutMs: 1_000 });
    pool.on('error', () => {});
    const isStandby = async (): Promise<boolean> =>
      (await pool.query({ text: 'SELECT pg_is_in_recovery() AS it', idempotent: true })).rows[0].it;
    expect(await isStandby()).toBe(false);
    const lost = new Promise((resolve) => pool.once('remove', resolve));
    await old.stop();
    await lost;
    await next.promote();
    await old.follow(next);
    await old.start();
    const answer = isStandby().catch(({ code }) => code);
    await until('it fails', async () => {
      await clock.advanceAsync(100);
      return (await Promise.race([answer, 'none yet'])) !== 'none yet';
    });
    expect(await answer).toBe('EVENKEEL_NOT_READY');
  });
});

describe.skipIf(noPostgres)(titled('a primary that is superseded while it is frozen'), () => {
  it.each(['primary', 'prefer-replica'] as const)('%s: acknowledges nothing any more', async (role) => {
    await using world = await startPostgres(1, { addresses: ADDRESSES.slice(0, 2), init: [ledgerTable] });
    const [old, next] = world.all as readonly Postgres[] as [Postgres, Postgres];
    const resolver = new FakeResolver();
    // For `prefer-replica`, the standby is not in the Service while the primary is used.
    resolver.update(...(role === 'primary' ? world.endpoints : [old.endpoint]));
    await using pool = createPool({ resolver, ...application, role, probeIntervalMs: 200 });
    pool.on('error', () => {});
    const insert = 'INSERT INTO ledger VALUES ($1)';
    const begin = async (id: number): Promise<PoolClient> => {
      const client = await pool.connect();
      client.on('error', () => {});
      await client.query('BEGIN');
      await client.query(insert, [id]);
      return client;
    };
    const late = await begin(1);
    const running = await begin(2);
    const idle = await begin(3);
    await idle.query('COMMIT');
    const spare = await Promise.all([1, 2, 3].map(() => pool.connect()));
    for (const client of spare) client.release();

    old.freeze();
    const unanswered = [
      running.query('COMMIT'),
      pool.query(insert, [4]),
      pool.query({ text: 'SELECT host(inet_server_addr()) AS it', idempotent: true }),
    ];
    const [commit, statement, read] = unanswered.map((answer) => answer.catch((error) => error));
    await next.promote();
    resolver.update(...world.endpoints);
    const superseded = { code: 'EVENKEEL_CONNECT', message: expect.stringContaining('promoted since') };
    expect(await commit).toMatchObject(superseded);
    expect(await statement).toMatchObject(superseded);
    // What may run twice goes to the new one.
    expect((await read).rows).toEqual([{ it: next.address }]);

    old.thaw();
    for (const client of [late, idle]) await expect(client.query('COMMIT')).rejects.toThrow();
    for (const client of [late, idle, running]) client.release();
    await pool.query(insert, [5]);
    expect(await next.sql('SELECT id FROM ledger WHERE id > 3')).toEqual([{ id: 5 }]);
    // The old one is asked again, and still gets nothing.
    await until('it is connected', () => pool.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'));
    const who = 'SELECT host(inet_server_addr()) AS it';
    for (let round = 0; round < 20; round++) expect((await pool.query(who)).rows).toEqual([{ it: next.address }]);
    await next.kill();
    await until('the new one is gone', () =>
      pool.balancer.snapshot().endpoints.some(({ state }) => state === 'backoff'),
    );
    const refused = await pool.query(who).catch((error) => error);
    expect(refused).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
  });
});
