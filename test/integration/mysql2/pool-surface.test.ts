import { AsyncLocalStorage } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';
import type { Readable } from 'node:stream';
import { type Endpoint, type ObserverEvents, roundRobin, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { createPool, type PoolConnection } from 'mysql2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { canEndGracefully, tracesAddress } from './support/peer.js';

const ROWS = 5_000;

describe.skipIf(noMariadb)(titled('code written for a pool of mysql2, with a cluster'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster;
  let attempts: ObserverEvents['attemptEnded'][];
  beforeAll(async () => {
    world = await startMariadbs(2, {
      init: [
        'CREATE TABLE IF NOT EXISTS numbers (n INT PRIMARY KEY, filler CHAR(200))',
        `REPLACE INTO numbers WITH RECURSIVE seq AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM seq WHERE n < ${ROWS}) SELECT n, REPEAT('x', 200) FROM seq`,
      ],
      args: ['--max-recursive-iterations=100000'],
    });
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    await cluster?.end();
  });
  const create = (options: Partial<PoolClusterOptions> = {}): PoolCluster => {
    attempts = [];
    cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints),
      observer: { attemptEnded: (event) => attempts.push(event) },
      ...application,
      ...options,
    });
    return cluster;
  };
  const inFlight = (): number => cluster.balancer.snapshot().endpoints.reduce((sum, one) => sum + one.inFlight, 0);

  it.each(['query', 'execute'] as const)('`%s`: streams rows no faster than they are read', async (method) => {
    const replicas = create({ connectionLimit: 1 });
    const stream = replicas[method]('SELECT * FROM numbers WHERE n > ?', [0]).stream({ highWaterMark: 5 });
    const seen: number[] = [];
    for await (const { n } of stream) {
      seen.push(n);
      expect(stream.readableLength).toBeLessThanOrEqual(6);
      if (seen.length % 500 === 0) await new Promise(setImmediate);
    }
    expect(seen).toHaveLength(ROWS);
    await until('its connection is free', () => inFlight() === 0);
    expect(attempts.map(({ outcome }) => outcome.kind)).toEqual(['success']);
    // A stream that is given up: the rest is read past, and the connection is good again.
    for await (const _row of replicas[method]('SELECT * FROM numbers').stream()) break;
    await until('its connection is free', () => inFlight() === 0);
    expect((await replicas.query('SELECT 7 AS seven'))[0]).toEqual([{ seven: 7 }]);
    expect(await world.at(0).connections()).toBeLessThanOrEqual(1);
  });

  it('a stream emits `result` as in mysql2, and `end` even after an error', async () => {
    const replicas = create({ multipleStatements: true });
    const [endpoint] = world.endpoints;
    const { address: host, port } = endpoint as Endpoint;
    const pool = createPool({ ...application, host, port, multipleStatements: true });
    const results = async (stream: Readable): Promise<unknown[]> => {
      const heard: unknown[] = [];
      stream.on('result', (row, index) => heard.push([row, index]));
      for await (const _row of stream);
      return heard;
    };
    const sql = 'SELECT 1 AS one; SELECT 2 AS two';
    // Newer ones say which result set it is of.
    const stock = await results(pool.query(sql).stream());
    expect(stock).toHaveLength(2);
    expect(await results(replicas.query(sql).stream())).toEqual(stock);
    await pool.promise().end();
    const heard: unknown[] = [];
    const failing = replicas.query('SELEC').stream();
    for (const event of ['error', 'end', 'close']) failing.on(event, () => heard.push(event));
    failing.resume();
    await until('it is closed', () => heard.includes('close'));
    expect(heard).toEqual(['error', 'end', 'close']);
  });

  it('rows arrive by events, in the async context of the caller; the promise resolves after them', async () => {
    const replicas = create();
    const context = new AsyncLocalStorage<string>();
    await context.run('mine', async () => {
      const heard: unknown[] = [];
      const running = replicas.query('SELECT n FROM numbers ORDER BY n LIMIT 2');
      running
        .on('fields', (fields) => heard.push(fields[0].name, context.getStore()))
        .on('result', (row) => heard.push(row))
        .on('error', (error) => heard.push(error))
        .once('end', () => heard.push('end'));
      const [rows, fields] = await running;
      expect(rows).toEqual([]);
      expect(fields[0]?.name).toBe('n');
      await until('it ended', () => heard.length === 5);
      expect(heard).toEqual(['n', 'mine', { n: 1 }, { n: 2 }, 'end']);
      // Asked for too late it is refused: the rows are being buffered.
      expect(() => running.on('result', () => {})).not.toThrow();
      const gathered = replicas.query('SELECT 1 AS one');
      await gathered;
      expect(() => gathered.on('result', () => {})).toThrow('are being buffered');
      expect(() => gathered.stream()).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    });
  });

  it('errors arrive once, by event or stream, without an unhandled rejection', async () => {
    const replicas = create();
    const rejections: unknown[] = [];
    const note = (reason: unknown): unknown => rejections.push(reason);
    process.on('unhandledRejection', note);
    try {
      const heard: unknown[] = [];
      replicas
        .query('SELEC')
        .on('error', ({ code }) => heard.push(code))
        .on('end', () => heard.push('end'));
      await until('it was told', () => heard.length === 2);
      expect(heard).toEqual(['ER_PARSE_ERROR', 'end']);
      await expect(replicas.execute('SELEC').stream().toArray()).rejects.toMatchObject({ code: 'ER_PARSE_ERROR' });
      await expect(
        replicas
          .query(7 as never)
          .stream()
          .toArray(),
      ).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
      await new Promise((resolve) => setTimeout(resolve, 10));
      expect(rejections).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });

  it('a statement whose connection dies is repeated elsewhere before its first row, and never after it', async () => {
    const replicas = create({ idempotent: true, picker: roundRobin(), waitTimeoutMs: 60_000 });
    await until('both are connected', () => {
      const { endpoints } = replicas.balancer.snapshot();
      return endpoints.length === 2 && endpoints.every(({ state }) => state === 'ready');
    });
    attempts.length = 0;
    /** Whether there was one to kill. */
    const killing = async (sql: string): Promise<boolean> => {
      for (const server of world.all) {
        const [found] = await server.sql(
          `SELECT id FROM information_schema.processlist WHERE info LIKE '${sql}%' AND id <> CONNECTION_ID()`,
        );
        if (found === undefined) continue;
        await server.sql(`KILL CONNECTION ${found.id}`);
        return true;
      }
      return false;
    };
    const before = replicas.query('SELECT SLEEP(0.7) AS slept').stream().toArray();
    await until('one was killed', () => killing('SELECT SLEEP'));
    expect(await before).toEqual([{ slept: 0 }]);
    expect(attempts.map(({ retrying }) => retrying)).toEqual([true, false]);
    attempts.length = 0;
    let seen = 0;
    const after = (async () => {
      const sql = 'SELECT a.n FROM numbers a, numbers b';
      for await (const _row of replicas.query(sql).stream({ highWaterMark: 5 })) if (++seen === 10) await killing(sql);
    })();
    await expect(after).rejects.toMatchObject({ fatal: true });
    expect(attempts.map(({ retrying }) => retrying)).toEqual([false]);
  });

  it('a connection shows which server it is connected to, also to traces', async () => {
    const replicas = create({ host: 'mysql-read.shop', picker: roundRobin() });
    const traced: string[] = [];
    const note = (message: unknown): void => {
      const { serverAddress, serverPort } = message as { serverAddress: string; serverPort: number };
      traced.push(`${serverAddress}:${serverPort}`);
    };
    channel('tracing:mysql2:query:start').subscribe(note);
    try {
      for (let count = 0; count < 4; count++) {
        const connection = await replicas.getConnection();
        const [rows] = await connection.query('SELECT @@port AS port');
        const { port } = (rows as unknown as { port: number }[])[0] as { port: number };
        expect(connection.endpoint).toMatchObject({ address: '127.0.0.1', port });
        const { config } = connection as unknown as { config: { host: string; port: number } };
        expect([config.host, config.port]).toEqual(['127.0.0.1', port]);
        replicas.releaseConnection(connection);
        if (tracesAddress) expect(traced.at(-1)).toBe(`127.0.0.1:${port}`);
      }
      await replicas.query('SELECT 1');
      if (tracesAddress) expect(world.endpoints.map(({ port }) => `127.0.0.1:${port}`)).toContain(traced.at(-1));
    } finally {
      channel('tracing:mysql2:query:start').unsubscribe(note);
    }
  });

  it.each(['query', 'execute'] as const)('`%s`: a transaction left open reaches no other caller', async (method) => {
    const primary = create({ connectionLimit: 1, resolver: staticEndpoints([world.at(0).endpoint]) });
    const warnings: string[] = [];
    primary.on('warn', (error: Error) => warnings.push(error.message));
    const inTransaction = async (): Promise<unknown> => {
      const [rows] = await primary.query(
        'SELECT @@in_transaction AS it, (SELECT COUNT(*) FROM numbers WHERE n < 0) AS n',
      );
      return (rows as unknown[])[0];
    };
    const committed = await primary.getConnection();
    await committed.beginTransaction();
    await committed[method as 'query']('INSERT INTO numbers VALUES (-1, "x")');
    await committed.commit();
    committed.release();
    expect(await inTransaction()).toEqual({ it: 0, n: 1 });
    expect(warnings).toEqual([]);
    const left = await primary.getConnection();
    await left.beginTransaction();
    await left[method as 'query']('DELETE FROM numbers WHERE n < 0');
    left.release();
    expect(await inTransaction()).toEqual({ it: 0, n: 1 });
    // Somebody uses a connection after its release.
    const stale = await primary.getConnection();
    stale.release();
    const begun = stale.query('START TRANSACTION');
    await primary.query('DELETE FROM numbers WHERE n < 0');
    await begun;
    expect(await inTransaction()).toEqual({ it: 0, n: 0 });
    expect(warnings).toEqual(Array(2).fill(expect.stringContaining('released in the middle of a transaction')));
  });

  it('a pool emits `enqueue` when callers have to wait', async () => {
    const replicas = create({ connectionLimit: 1, resolver: staticEndpoints(world.endpoints.slice(0, 1)) });
    (await replicas.getConnection()).release();
    let enqueued = 0;
    replicas.on('enqueue', () => enqueued++);
    await replicas.query('SELECT 1');
    expect(enqueued).toBe(0);
    const taken = await replicas.getConnection();
    const waiting = [replicas.query('SELECT 1'), replicas.getConnection().then((connection) => connection.release())];
    expect(enqueued).toBe(2);
    taken.release();
    await Promise.all(waiting);
    expect(enqueued).toBe(2);
  });

  it('`using` releases a connection, and ends a cluster', async () => {
    const replicas = create({ connectionLimit: 1, resolver: staticEndpoints(world.endpoints.slice(0, 1)) });
    for (let count = 0; count < 3; count++) {
      await using connection = await replicas.getConnection();
      await connection.query('SELECT 1');
    }
    await new Promise<void>((resolve, reject) => {
      replicas.getConnection((error, connection) => {
        if (error) {
          reject(error);
          return;
        }
        using mine: Disposable = connection as PoolConnection & Disposable;
        expect(mine).toBe(connection);
        resolve();
      });
    });
    expect(inFlight()).toBe(0);
    replicas[Symbol.dispose]();
    expect(replicas.balancer.snapshot().state).toBe('closed');
  });

  it.runIf(canEndGracefully)(
    titleOf(
      '`gracefulEnd`: `end` closes a connection after its running statements',
      canEndGracefully,
      'this mysql2 has no such option',
    ),
    async () => {
      const replicas = create({ gracefulEnd: true, resolver: staticEndpoints(world.endpoints.slice(0, 1)) });
      const connection = await replicas.getConnection();
      const { threadId } = connection;
      const running = connection.query('SELECT 7 AS seven');
      await (connection as unknown as { end(): Promise<void> }).end();
      expect((await running)[0]).toEqual([{ seven: 7 }]);
      await until('its lease has ended', () => inFlight() === 0);
      const [[row]] = await replicas.query<never[]>('SELECT CONNECTION_ID() AS id');
      expect((row as unknown as { id: number }).id).not.toBe(threadId);
      expect(attempts.map(({ outcome }) => outcome.kind)).toEqual(['success', 'success']);
      expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ state: 'ready', failed: 0 });
    },
  );
});
