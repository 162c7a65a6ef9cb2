import { inspect } from 'node:util';
import { isEvenkeelError } from 'evenkeel';
import { createPool, type PgPool, type PgPoolOptions } from 'evenkeel/pg';
import { FakeResolver } from 'evenkeel/testing';
import pg from 'pg';
import Cursor from 'pg-cursor';
import QueryStream from 'pg-query-stream';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import { endText } from '../../support/fixtures/attempt-text.js';
import { hasIpv6, Ipv6Door, needsIpv6 } from '../../support/pods/ipv6.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';

/** What users of pg.Pool do, on the pool of a Service. */
describe.skipIf(noPostgres)(titled('createPool in the form of pg.Pool'), () => {
  let world: PostgresWorld;
  const pools: PgPool[] = [];
  let pool: PgPool;
  const open = (options: PgPoolOptions = {}): PgPool => {
    const resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    const opened = createPool({ resolver, ...application, ...options });
    pools.push(opened);
    return opened;
  };

  beforeAll(async () => {
    world = await startPostgres(0, { init: ['CREATE TABLE items (id int)'] });
  });
  afterAll(async () => {
    await world?.close();
  });
  beforeEach(() => {
    pool = open();
  });
  afterEach(async () => {
    await Promise.all(pools.splice(0).map((one) => (one.ending ? undefined : one.end())));
    await until('nothing is left open', async () => (await world.at(0).connections()) === 0);
  });

  it.runIf(hasIpv6)(titleOf('accepts an IPv6 address as host, and in its target', hasIpv6, needsIpv6), async () => {
    const { port } = world.at(0);
    await using door = await Ipv6Door.open(port);
    for (const server of [{ host: '::1', port }, { target: `[::1]:${port}` }]) {
      const before = door.accepted;
      const one = createPool({ ...application, ...server });
      pools.push(one);
      expect((await one.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
      await one.end();
      expect(door.accepted).toBeGreaterThan(before);
    }
  });

  it('runs statements in all forms of pg', async () => {
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    expect((await pool.query('SELECT $1::int AS one', [1])).rows).toEqual([{ one: 1 }]);
    expect((await pool.query({ text: 'SELECT $1::int', values: [2], rowMode: 'array' })).rows).toEqual([[2]]);
    expect((await pool.query({ name: 'named', text: 'SELECT $1::int AS n' }, [3])).rows).toEqual([{ n: 3 }]);
    expect(((await pool.query('SELECT 1; SELECT 2')) as unknown as unknown[]).length).toBe(2);
    expect((await pool.query('')).rows).toEqual([]);
    const form = (...given: unknown[]): Promise<pg.QueryResult> =>
      new Promise((resolve, reject) => {
        const result = (pool.query as (...args: unknown[]) => unknown)(
          ...given,
          (error: Error, answer: pg.QueryResult) => (error ? reject(error) : resolve(answer)),
        );
        expect(result).toBeUndefined();
      });
    expect((await form('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    expect((await form('SELECT $1::int AS one', [1])).rows).toEqual([{ one: 1 }]);
    expect((await form({ text: 'SELECT 4 AS four' })).rows).toEqual([{ four: 4 }]);
    await expect(form('SELECT nothing')).rejects.toMatchObject({ code: '42703' });
    expect((await (pool.query(new pg.Query('SELECT 5 AS five')) as unknown as Promise<pg.QueryResult>)).rows).toEqual([
      { five: 5 },
    ]);
  });

  it('returns an error of the statement to its caller, and keeps the connection', async () => {
    const pid = async (): Promise<number> => (await pool.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
    const first = await pid();
    const error = await pool.query('SELECT nothing').catch((cause) => cause);
    expect(error).toBeInstanceOf(pg.DatabaseError);
    expect(error.stack).toContain('pool.test.ts');
    await expect(pool.query('SELECT 1/$1::int', [0])).rejects.toMatchObject({ code: '22012' });
    await expect(pool.query('SELECT $1', 'no array' as never)).rejects.toThrow('must be an array');
    await expect(
      pool.query('SELECT $1::text', [
        {
          toPostgres: () => {
            throw new Error('mine');
          },
        },
      ]),
    ).rejects.toThrow('mine');
    await expect(pool.query(undefined as never)).rejects.toThrow('null or undefined query');
    const refused = await new Promise<Error>((resolve) => pool.query(resolve as never));
    expect(refused.message).toContain('function as the first parameter');
    await expect(pool.query({ text: 'SELECT 1/0', rows: 1 } as never)).rejects.toMatchObject({ code: '22012' });
    await pool.query('SELECT nothing; SELECT 1').catch(() => {});
    expect((await pool.query('SELECT 6 AS six')).rows).toEqual([{ six: 6 }]);
    expect(first).toBeGreaterThan(0);
    expect(pool.totalCount).toBeLessThanOrEqual(2);
  });

  it('lends no session with a transaction that another caller left open, and warns once', async () => {
    const warnings: string[] = [];
    const warned = open({ observer: { warned: ({ message }) => void warnings.push(message) }, max: 1 });
    for (let round = 0; round < 2; round++) {
      await warned.query('BEGIN');
      await warned.query('CREATE TABLE left_open (id int)');
      expect((await warned.query("SELECT to_regclass('left_open') AS it")).rows).toEqual([{ it: 'left_open' }]);
      // Nothing is left to be rolled back.
      await warned.query('ROLLBACK');
      await warned.query('DROP TABLE left_open');
    }
    expect(warnings).toEqual([expect.stringContaining('pool.query() began a transaction')]);
    for (let round = 0; round < 2; round++) {
      const client = await warned.connect();
      await client.query('BEGIN');
      await client.query('INSERT INTO items VALUES (1)');
      if (round === 1) await client.query('SELECT nothing').catch(() => {});
      client.release();
      expect((await warned.query('SELECT count(*)::int AS n FROM items')).rows).toEqual([{ n: 0 }]);
    }
    expect(warnings.slice(1)).toEqual([
      expect.stringContaining('a client was released in the middle of a transaction'),
    ]);
    // Whoever hands back an error knows.
    const other = open({ observer: { warned: ({ message }) => void warnings.push(message) } });
    const client = await other.connect();
    await client.query('BEGIN');
    client.release(new Error('mine'));
    await other.query('BEGIN; COMMIT');
    expect(warnings.length).toBe(2);
  });

  it('runs a transaction on one client, by promise and by callback', async () => {
    const client = await pool.connect();
    const { rows: one } = await client.query('SELECT pg_backend_pid() AS pid');
    await client.query('BEGIN');
    await client.query('INSERT INTO items VALUES (1)');
    const { rows: two } = await client.query('SELECT pg_backend_pid() AS pid');
    await client.query('ROLLBACK');
    expect(two).toEqual(one);
    expect(pool.idleCount).toBe(0);
    client.release();
    expect(pool.idleCount).toBe(1);
    expect(() => client.release()).toThrow('already been released');
    await new Promise<void>((resolve, reject) => {
      pool.connect((error, given, release) => {
        if (error || given === undefined) return reject(error);
        void given.query('SELECT 1', (failure) => {
          release();
          if (failure) reject(failure);
          else resolve();
        });
      });
    });
    const doomed = await pool.connect();
    const total = pool.totalCount;
    const removed = new Promise((resolve) => pool.once('remove', resolve));
    doomed.release(true);
    expect(await removed).toBe(doomed);
    expect(pool.totalCount).toBeLessThanOrEqual(total);
  });

  it('emits the events of pg.Pool for its clients', async () => {
    const told: string[] = [];
    const other = open({ max: 1 });
    for (const event of ['connect', 'acquire', 'release', 'remove'] as const) other.on(event, () => told.push(event));
    await other.query('SELECT 1');
    expect(told).toEqual(['connect', 'acquire', 'release']);
    const client = await other.connect();
    const released = new Promise((resolve) => other.once('release', (...given) => resolve(given)));
    client.release();
    expect(await released).toEqual([undefined, client]);
    // One that nobody uses is cut by the server.
    const failed = new Promise<[Error, pg.PoolClient]>((resolve) =>
      other.once('error', (cause, client) => resolve([cause, client])),
    );
    const [{ pid }] = (await other.query('SELECT pg_backend_pid() AS pid')).rows;
    await world.at(0).sql('SELECT pg_terminate_backend($1)', [pid]);
    const [error, lost] = await failed;
    expect(error).toMatchObject({ code: '57P01', client: lost });
    expect((await other.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await other.end();
    expect(told).toContain('remove');
  });

  it('survives that an idle client is cut without a listener, and a checked-out one', async () => {
    const client = await pool.connect();
    const [{ pid }] = (await client.query('SELECT pg_backend_pid() AS pid')).rows;
    await world.at(0).sql('SELECT pg_terminate_backend($1)', [pid]);
    await expect(client.query('SELECT 1')).rejects.toThrow();
    client.release();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('limits its connections, makes callers wait, and counts them', async () => {
    const small = open({ max: 2, waitTimeoutMs: 300 });
    const one = await small.connect();
    const two = await small.connect();
    const late = small.query('SELECT 1').catch((error) => error);
    expect(small.waitingCount).toBe(1);
    expect({ total: small.totalCount, idle: small.idleCount }).toEqual({ total: 2, idle: 0 });
    expect(isEvenkeelError(await late, 'EVENKEEL_NOT_READY')).toBe(true);
    expect(small.waitingCount).toBe(0);
    const next = small.query('SELECT 2 AS two');
    one.release();
    expect((await next).rows).toEqual([{ two: 2 }]);
    two.release();
    expect(small.idleCount).toBe(2);
  });

  it('ends: running statements finish, nothing new begins', async () => {
    const client = await pool.connect();
    const ended = pool.end();
    await expect(pool.query('SELECT 1')).rejects.toThrow('Cannot use a pool after calling end on the pool');
    await expect(pool.connect()).rejects.toThrow('after calling end');
    await expect(pool.end()).rejects.toThrow('Called end on pool more than once');
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    client.release();
    await ended;
    expect({ ended: pool.ended, ending: pool.ending, total: pool.totalCount }).toEqual({
      ended: true,
      ending: true,
      total: 0,
    });
    await new Promise<void>((resolve) => open().end(resolve));
    await (async () => {
      await using disposed = open();
      await disposed.query('SELECT 1');
    })();
  });

  it('lets statements finish that began before the end, and calls no callback too early', async () => {
    const fresh = open({ max: 2 });
    const answers = Array.from({ length: 20 }, (_, n) => fresh.query('SELECT $1::int AS n', [n]));
    await fresh.end();
    const results = await Promise.all(answers);
    expect(results.map(({ rows }) => rows[0].n)).toEqual(Array.from({ length: 20 }, (_, n) => n));

    await pool.query('SELECT 1');
    let isSynchronous = true;
    await new Promise<void>((resolve) => {
      pool.connect((_, __, release) => {
        expect(isSynchronous).toBe(false);
        release();
        resolve();
      });
      isSynchronous = false;
    });
  });

  it('does not lend a client again that its user ended', async () => {
    const client = await pool.connect();
    void client.end();
    client.release();
    expect(pool.idleCount).toBe(0);
    for (let round = 0; round < 5; round++) expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('reads by cursor and by stream, on a client and without one', async () => {
    const text = 'SELECT generate_series(1, 250) AS n';
    let sum = 0;
    for await (const { n } of pool.query(new QueryStream(text, [], { batchSize: 20 }))) sum += n;
    expect(sum).toBe((250 * 251) / 2);
    const cursor = pool.query(new Cursor(text));
    expect(await cursor.read(2)).toEqual([{ n: 1 }, { n: 2 }]);
    await cursor.close();
    const client = await pool.connect();
    const own = client.query(new Cursor(text));
    expect(await own.read(1)).toEqual([{ n: 1 }]);
    await own.close();
    client.release();
    await until('all are free', () => pool.idleCount === pool.totalCount);
    const broken = pool.query(new QueryStream('SELECT nothing'));
    await expect(broken.toArray()).rejects.toMatchObject({ code: '42703' });
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('gives a connection back although the stream for it was destroyed while it waited', async () => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => pool.connect()));
    const stream = pool.query(new QueryStream('SELECT generate_series(1, 250) AS n'));
    stream.destroy();
    for (const client of clients) client.release();
    await until('all are free', () => pool.waitingCount === 0 && pool.idleCount === pool.totalCount);
  });

  it('answers a query object by its own callback, and gives its connection back', async () => {
    const rows = await new Promise((resolve, reject) => {
      const text = 'SELECT 7 AS n';
      const callback = (error: Error | undefined, result: pg.QueryResult): void =>
        error ? reject(error) : resolve(result.rows);
      pool.query(new pg.Query(text, callback as never) as never);
    });
    expect(rows).toEqual([{ n: 7 }]);
    await until('it is free', () => pool.idleCount === pool.totalCount);
  });

  it('sends no query object a second time, which would add the rows of both', async () => {
    const reads = open({ idempotent: true });
    const running = reads.query(new pg.Query('SELECT pg_sleep(60)') as never) as unknown as Promise<pg.QueryResult>;
    const sleeping = "FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'";
    const count = async (): Promise<number> => (await pool.query(`SELECT pid ${sleeping}`)).rows.length;
    await until('it runs', async () => (await count()) === 1);
    const failing = expect(running).rejects.toMatchObject({ code: '57P01' });
    await pool.query(`SELECT pg_terminate_backend(pid) ${sleeping}`);
    await failing;
  });

  it('ends a connection on which somebody begins a transaction after its release', async () => {
    const client = await pool.connect();
    client.release();
    await client.query('BEGIN');
    await pool.query('INSERT INTO items VALUES (77)');
    expect((await pool.query('SELECT id FROM items WHERE id = 77')).rows).toEqual([{ id: 77 }]);
  });

  it('lends no client on which somebody is beginning a transaction after its release', async () => {
    const one = open({ max: 1 });
    const stale = await one.connect();
    stale.release();
    const begun = stale.query('BEGIN');
    const client = await one.connect();
    await client.query('INSERT INTO items VALUES (78)');
    client.release();
    await begun;
    expect((await pool.query('SELECT id FROM items WHERE id = 78')).rows).toEqual([{ id: 78 }]);
    await pool.query('DELETE FROM items WHERE id = 78');
  });

  it('counts a client or a stream whose connection died against its server, but no error of a statement', async () => {
    const ends: string[] = [];
    const watched = open({ observer: { attemptEnded: (event) => ends.push(endText(event)) } });
    const terminate = (where: string): Promise<unknown> =>
      pool.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${where}`);
    const client = await watched.connect();
    await expect(client.query('SELECT nothing')).rejects.toMatchObject({ code: '42703' });
    client.release();
    const unlucky = await watched.connect();
    const ended = new Promise((resolve) => unlucky.once('end', resolve));
    const { rows } = await unlucky.query('SELECT pg_backend_pid() AS pid');
    await terminate(`pid = ${rows[0].pid}`);
    await ended;
    unlucky.release();
    const failed = watched
      .query(new QueryStream('SELECT pg_sleep(60)'))
      .toArray()
      .catch((error) => error);
    const sleeping = "query = 'SELECT pg_sleep(60)'";
    const count = `SELECT pid FROM pg_stat_activity WHERE ${sleeping}`;
    await until('it runs', async () => (await pool.query(count)).rows.length === 1);
    await terminate(sleeping);
    // Its reader gets the error, although pg-query-stream waits for an answer that never comes.
    expect(await failed).toMatchObject({ code: '57P01' });
    await until('all have ended', () => ends.length === 3);
    expect(ends).toEqual(['success', 'failure reset', 'failure reset']);
  });

  it('fails a stream that nobody reads at the moment when its connection dies', async () => {
    const stream = pool.query(new QueryStream("SELECT n, repeat('x', 1000) FROM generate_series(1, 100000) AS n"));
    const reader = stream[Symbol.asyncIterator]();
    await reader.next();
    const other = open();
    await other.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1', [
      '%generate_series%100000%',
    ]);
    await until('it is lost', () => pool.waitingCount === 0 && stream.destroyed);
    const readAll = async (): Promise<void> => {
      while (!(await reader.next()).done);
    };
    await expect(readAll()).rejects.toThrow('terminat');
  });

  it('accepts pg options: hooks, a password function, a connection string, type parsers', async () => {
    const seen: string[] = [];
    const { user, password, database } = application;
    const { address, port } = world.at(0);
    const hooked = open({
      resolver: undefined,
      user: undefined,
      database: undefined,
      password: undefined,
      connectionString: `postgresql://${user}:${password}@${address}:${port}/${database}?application_name=shop&statement_timeout=5000`,
      onConnect: async (client) => {
        await client.query("SET search_path TO 'elsewhere'");
        seen.push('onConnect');
      },
      verify: (_, done) => {
        seen.push('verify');
        done();
      },
    } as PgPoolOptions);
    const { rows } = await hooked.query(
      "SELECT current_setting('search_path') AS path, current_setting('application_name') AS app, current_setting('statement_timeout') AS timeout",
    );
    expect(rows).toEqual([{ path: 'elsewhere', app: 'shop', timeout: '5s' }]);
    expect(seen).toEqual(['onConnect', 'verify']);
    const asked = open({ password: async () => password, types: { getTypeParser: () => () => 'parsed' } as never });
    expect((await asked.query('SELECT 1 AS one')).rows).toEqual([{ one: 'parsed' }]);
    expect(hooked).toBeInstanceOf(pg.Pool);
    expect(hooked.options.max).toBe(10);
    expect(JSON.stringify(pool)).not.toContain(password);
    expect(inspect(pool, { depth: 30 })).not.toContain(password);
    expect(() => createPool({ target: 'postgres.shop:5432', schema: 'boss' } as never)).toThrow('schema');
    expect(() => createPool({ host: '/var/run/postgresql' })).toThrow('Unix socket');
  });

  it('replaces connections past their maximum age, even if the limit has no room for one more', async () => {
    const small = open({ max: 1, maxLifetimeSeconds: 1 });
    let opened = 0;
    small.on('connect', () => opened++);
    const pid = async (): Promise<number> => (await small.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
    const first = await pid();
    await until('another connection is used', async () => (await pid()) !== first);
    expect(opened).toBe(2);
  });

  it('replaces connections past their maximum age that are never idle', async () => {
    const busy = open({ max: 2, maxLifetimeSeconds: 1 });
    const pids = new Set<number>();
    let isOver = false;
    const callers = [1, 2, 3, 4, 5].map(async () => {
      while (!isOver) pids.add((await busy.query('SELECT pg_backend_pid() AS pid, pg_sleep(0.01)')).rows[0].pid);
    });
    await until('both connections were replaced', () => pids.size >= 4).finally(() => {
      isOver = true;
    });
    await Promise.all(callers);
  });

  it('reports at once that the server refuses the log-in', async () => {
    const wrong = open({ password: 'wrong' });
    await expect(wrong.query('SELECT 1')).rejects.toMatchObject({ code: expect.stringMatching(/^EVENKEEL_/) });
    const failing = open({ password: () => Promise.reject(new Error('no secret today')) });
    await expect(failing.query('SELECT 1')).rejects.toThrow('no secret today');
    const hooked = open({ onConnect: () => Promise.reject(new Error('not like this')) } as PgPoolOptions);
    await expect(hooked.query('SELECT 1')).rejects.toThrow('not like this');
    const verified = open({ verify: (_, done) => done(new Error('not this one')) });
    await expect(verified.query('SELECT 1')).rejects.toThrow('not this one');
  });
});
