import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { isEvenkeelError } from 'evenkeel';
import { createPool, type PgPool, type PgPoolOptions } from 'evenkeel/pg';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import type { Notification } from 'pg';
import QueryStream from 'pg-query-stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import { until } from '../../support/until.js';

/** What goes wrong between an application and its database. `max_connections` leaves 9 to applications. */
describe.skipIf(noPostgres)(titled('createPool under strain'), () => {
  let world: PostgresWorld;
  const pools: PgPool[] = [];
  const open = (options: PgPoolOptions = {}): PgPool => {
    const resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    const pool = createPool({ resolver, ...application, ...options });
    pools.push(pool);
    return pool;
  };

  beforeAll(async () => {
    world = await startPostgres(0, {
      args: ['-c', 'max_connections=12', '-c', 'max_wal_senders=0'],
      init: ['CREATE TABLE items (id int)'],
    });
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    for (const one of pools.splice(0)) if (!one.ending) await one.end();
    await until('nothing is left open', async () => (await world.at(0).connections()) === 0);
  });

  it('answers 1,000 statements at once from a server that accepts nine connections', async () => {
    const pool = open({ max: 50, maxWaiting: 2_000, waitTimeoutMs: 60_000 });
    const all = Array.from({ length: 1_000 }, (_, n) => pool.query('SELECT $1::int AS n', [n]));
    const answers = await Promise.all(all);
    expect(answers.map(({ rows }) => rows[0].n)).toEqual(Array.from({ length: 1_000 }, (_, n) => n));
    // Of the server's own count, because the pool may just be trying whether the server accepts one more.
    expect(await world.at(0).connections()).toBeLessThanOrEqual(9);
  });

  it('waits for a connection at a full server, also without any connection yet, and gives up in time', async () => {
    const all = open({ max: 9 });
    const clients = await Promise.all(Array.from({ length: 9 }, () => all.connect()));
    const impatient = open({ waitTimeoutMs: 1_000 });
    await until('it was refused', () => impatient.balancer.snapshot().endpoints[0]?.state === 'backoff');
    const refused = await impatient.query('SELECT 1').catch((error) => error);
    expect(refused).toMatchObject({
      code: 'EVENKEEL_NOT_READY',
      message: expect.stringMatching(/connection slots|too many/),
    });
    const patient = open({ waitTimeoutMs: 60_000 });
    const answers = Array.from({ length: 20 }, () => patient.query('SELECT 1 AS one'));
    await until('it was refused', () => patient.balancer.snapshot().endpoints[0]?.state === 'backoff');
    for (const client of clients) client.release();
    // They keep their connections while they may be needed again.
    expect(all.totalCount).toBe(9);
    await all.end();
    for (const { rows } of await Promise.all(answers)) expect(rows).toEqual([{ one: 1 }]);
  });

  it('refuses calls beyond the number that may wait', async () => {
    const pool = open({ max: 1, maxWaiting: 3 });
    const client = await pool.connect();
    const waiting = Array.from({ length: 5 }, () =>
      pool.query('SELECT 1').then(
        () => 'done',
        (error) => error.code,
      ),
    );
    client.release();
    expect((await Promise.all(waiting)).sort()).toEqual([
      ...['EVENKEEL_QUEUE_FULL', 'EVENKEEL_QUEUE_FULL', 'done', 'done', 'done'],
    ]);
  });

  it('keeps the time limits of the server, of pg, and for connecting', async () => {
    const pool = open({ statement_timeout: 100, max: 1 });
    await expect(pool.query('SELECT pg_sleep(30)')).rejects.toMatchObject({ code: '57014' });
    const [{ pid }] = (await pool.query('SELECT pg_backend_pid() AS pid')).rows;
    expect((await pool.query('SELECT pg_backend_pid() AS pid')).rows).toEqual([{ pid }]);
    const hasty = open({ query_timeout: 100, max: 1 });
    await expect(hasty.query('SELECT pg_sleep(1)')).rejects.toThrow('Query read timeout');
    // The connection that is still busy with it is gone.
    expect((await hasty.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('lends no client whose statement is still running', async () => {
    const pool = open({ max: 1 });
    const client = await pool.connect();
    const slow = client.query("SELECT pg_sleep(0.2), 'slow' AS it");
    client.release();
    const next = pool.query("SELECT 'next' AS it");
    expect((await slow).rows[0].it).toBe('slow');
    expect((await next).rows).toEqual([{ it: 'next' }]);
  });

  it('listens for notifications on its own client, and misses none when others come and go', async () => {
    const pool = open({ max: 2 });
    const client = await pool.connect();
    await client.query('LISTEN news');
    const heard = new Promise<Notification>((resolve) => client.once('notification', resolve));
    await Promise.all(Array.from({ length: 20 }, () => pool.query('SELECT 1')));
    await pool.query("NOTIFY news, 'it is here'");
    expect((await heard).payload).toBe('it is here');
    client.release(true);
  });

  it('leaves no COPY and no cursor to the next caller', async () => {
    const pool = open({ max: 1 });
    await expect(pool.query('COPY items FROM STDIN')).rejects.toThrow();
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await pool.query('COPY items TO STDOUT');
    const stream = pool.query(new QueryStream('SELECT generate_series(1, 100000) AS n', [], { batchSize: 10 }));
    for await (const { n } of stream) if (n === 15) break;
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    const client = await pool.connect();
    const left = client.query(new QueryStream('SELECT generate_series(1, 100000) AS n', [], { batchSize: 10 }));
    await once(left, 'readable');
    client.release(true);
    left.on('error', () => {});
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('takes host, port and the other settings from the environment', async () => {
    const { address, port } = world.at(0);
    const { user, password, database } = application;
    const own = { PGHOST: address, PGPORT: String(port), PGUSER: user, PGPASSWORD: password, PGDATABASE: database };
    const before = { ...process.env };
    Object.assign(process.env, own);
    try {
      const pool = createPool({});
      pools.push(pool);
      expect((await pool.query('SELECT current_user AS it')).rows).toEqual([{ it: user }]);
    } finally {
      for (const name of Object.keys(own)) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
    }
  });

  it('gives up on a server that hangs in the handshake, and uses the others', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket.on('error', () => {}).resume()));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    const resolver = new FakeResolver();
    resolver.update({ address: '127.0.0.1', port }, ...world.endpoints);
    const pool = open({ resolver, pool: { connectTimeoutMs: 300 } });
    for (let round = 0; round < 20; round++) expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await until('it was tried', () => sockets.length > 0);
    await pool.end();
    await until('its sockets are closed', () =>
      sockets.every(({ destroyed, readableEnded }) => destroyed || readableEnded),
    );
    for (const socket of sockets) socket.destroy();
    silent.close();
  });

  it('notices a server that freezes, and uses it again later', async () => {
    const pool = open({ role: 'primary', probeIntervalMs: 100, waitTimeoutMs: 500 });
    await pool.query('SELECT 1');
    world.at(0).freeze();
    await until('its sessions are given up', () => pool.totalCount === 0);
    const error = await pool.query('SELECT 1').catch((cause) => cause);
    expect(isEvenkeelError(error)).toBe(true);
    world.at(0).thaw();
    await until('it is back', () =>
      pool.query('SELECT 1').then(
        () => true,
        () => false,
      ),
    );
  });

  describe('sessions that the server or an administrator ends while they are idle', () => {
    const states: string[] = [];
    const observer = { subchannelChanged: ({ to }: { readonly to: string }) => void states.push(to) };
    const ends: Error[] = [];
    const opened = (options: PgPoolOptions): PgPool => {
      states.length = 0;
      ends.length = 0;
      return open({ observer, ...options }).on('error', (error) => ends.push(error)) as PgPool;
    };
    const terminate = (): Promise<unknown> =>
      world.at(0).sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [application.user]);

    it.each([
      // Set by the statement itself: a limit that counts from the log-in may end a session before it is ready.
      { code: '57P05', statement: 'SET idle_session_timeout = 20', end: async () => {} },
      { code: '57P01', statement: 'SELECT 1', end: terminate },
    ])('$code: the server is used again without a pause', async ({ code, statement, end }) => {
      // The clock stands still: however slow the machine is, the server ends sessions soon after it was connected to.
      const pool = opened({ clock: new FakeClock() });
      for (let round = 1; round <= 10; round++) {
        // Before the query, because its answer and the end of the session may arrive together.
        const { length } = ends;
        await pool.query(statement);
        await end();
        await until('the server has ended it', () => ends.length > length);
      }
      expect(new Set(ends.map((error) => (error as { code?: string }).code))).toEqual(new Set([code]));
      expect(states).toEqual(['connecting', 'ready']);
    });

    it('are replaced although no call needs one', async () => {
      const pool = opened({});
      await pool.query('SELECT 1');
      await terminate();
      await until('the server has ended it', () => ends.length > 0);
      await until('there is another', () => pool.idleCount === 1);
    });

    it('after a while are replaced at once', async () => {
      const clock = new FakeClock();
      const pool = opened({ clock });
      await pool.query('SELECT 1');
      await clock.advanceAsync(10_000);
      await terminate();
      await until('it is connected anew', async () => {
        await clock.advanceAsync(0);
        return states.length > 2 && states.at(-1) === 'ready';
      });
      expect(states).toEqual(['connecting', 'ready', 'connecting', 'ready']);
    });

    it('fail only the statement or client that uses them', async () => {
      const pool = opened({ max: 2 });
      const client = await pool.connect();
      client.on('error', () => {});
      const running = pool.query('SELECT pg_sleep(60)').catch((error) => error);
      const waiting = Array.from({ length: 10 }, () => pool.query('SELECT 1 AS one'));
      await until('both run', async () => (await world.at(0).connections()) === 2);
      await terminate();
      expect(await running).toMatchObject({ code: '57P01' });
      await expect(client.query('SELECT 1')).rejects.toThrow();
      client.release();
      for (const { rows } of await Promise.all(waiting)) expect(rows).toEqual([{ one: 1 }]);
      expect(states).toEqual(['connecting', 'ready']);
    });
  });

  it('leaves an error thrown in a callback to the process, and goes on', async () => {
    const pool = open({ max: 1 });
    const thrown: string[] = [];
    const listeners = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => thrown.push(error.message));
    try {
      pool.query('SELECT 1', () => {
        throw new Error('in an answer');
      });
      pool.query('SELECT nothing', () => {
        throw new Error('after an error');
      });
      pool.connect((_, __, release) => {
        release();
        throw new Error('in a checkout');
      });
      pool.once('acquire', () => {
        throw new Error('in a listener');
      });
      await until('all were thrown', () => thrown.length === 4);
      expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const listener of listeners) process.on('uncaughtException', listener);
    }
    expect(thrown.sort()).toEqual(['after an error', 'in a checkout', 'in a listener', 'in an answer']);
  });

  it('accepts a connection string with every setting, and a user without rights', async () => {
    const { user, password, database } = application;
    const { address, port } = world.at(0);
    const connectionString = `postgres://${user}:${encodeURIComponent(password)}@elsewhere.invalid:1/${database}?sslmode=disable&options=-c%20geqo%3Doff&application_name=a%20b`;
    const pool = createPool({ connectionString, target: `static:${address}:${port}` });
    pools.push(pool);
    const { rows } = await pool.query(
      "SELECT current_setting('geqo') AS geqo, current_setting('application_name') AS app",
    );
    expect(rows).toEqual([{ geqo: 'off', app: 'a b' }]);
    const wrong = open({ database: 'nowhere' });
    await expect(wrong.query('SELECT 1')).rejects.toMatchObject({ code: 'EVENKEEL_CONNECT' });
    expect(() => createPool({ host: 'a', Client: class {} as never })).toThrow();
  });
});
