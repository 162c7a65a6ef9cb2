import { Readable } from 'node:stream';
import { staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeClock } from 'evenkeel/testing';
import type { PoolConnection, Query, ResultSetHeader } from 'mysql2';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { until } from '../../support/until.js';

let cluster: PoolCluster;

const checkOut = (): Promise<PoolConnection> =>
  new Promise((resolve, reject) => cluster.getConnection((error, got) => (error ? reject(error) : resolve(got))));

/** What a reader by events hears, in order. */
const heardOf = (query: Pick<Query, 'on'>): string[] => {
  const heard: string[] = [];
  query.on('fields', () => heard.push('fields'));
  query.on('result', () => heard.push('result'));
  query.on('error', (error) => heard.push(`error ${(error as { code?: string }).code ?? String(error)}`));
  query.on('end', () => heard.push('end'));
  return heard;
};

describe('a result that is read by events or as a stream', () => {
  let server: ScriptedMysql;
  beforeEach(async () => {
    server = await ScriptedMysql.start();
  });
  afterEach(async () => {
    server.end('badly');
    await cluster?.end();
    await server[Symbol.asyncDispose]();
  });
  const create = async (options: Partial<PoolClusterOptions> = {}): Promise<PoolConnection> => {
    cluster = createPoolCluster({ resolver: staticEndpoints([server.endpoint]), user: 'app', ...options });
    await until('it is connected', () => cluster.balancer.snapshot().state === 'ready');
    return checkOut();
  };

  it.each([
    ['the server hangs up', {}, () => server.end('cleanly'), 'PROTOCOL_CONNECTION_LOST'],
    ['the server crashes', {}, () => server.end('badly'), 'ECONNRESET'],
    [
      'the cluster has ended and its time is over',
      { pool: { drainTimeoutMs: 20 } },
      () => cluster.end(),
      'EVENKEEL_CLOSED',
    ],
    ['the connection is destroyed', {}, (connection: PoolConnection) => connection.destroy(), 'EVENKEEL_CLOSED'],
  ] as const)('ends with an error when %s', async (_what, options, cut, code) => {
    const connection = await create(options);
    server.reaction = () => 'hold';
    const heard = heardOf(connection.query('SELECT id'));
    // A second one, still in mysql2's queue.
    const queued = heardOf(connection.query('SELECT id'));
    const stream = connection.query('SELECT id').stream();
    const streaming = stream.toArray().catch((error) => error);
    await server.held();
    void cut(connection);
    expect(await streaming).toMatchObject({ code });
    await until('both have heard', () => heard.length === 2 && queued.length === 2);
    expect([heard, queued]).toEqual([
      [`error ${code}`, 'end'],
      [`error ${code}`, 'end'],
    ]);
    connection.release();
    await until('it is no more in use', () => cluster.balancer.snapshot().endpoints.every((one) => one.inFlight === 0));
  });

  it('is cut when no part of it came for `queryTimeoutMs`, or for its own timeout', async () => {
    const clock = new FakeClock();
    const connection = await create({ queryTimeoutMs: 5_000, clock });
    server.reaction = () => 'hold';
    const heard = heardOf(connection.query('SELECT id'));
    await server.held();
    clock.advance(4_999);
    expect(heard).toEqual([]);
    clock.advance(1);
    await until('it was told', () => heard.length === 2);
    expect(heard).toEqual(['error PROTOCOL_SEQUENCE_TIMEOUT', 'end']);
    connection.release();
    const other = await checkOut();
    const own = heardOf(other.query({ sql: 'SELECT id', timeout: 100 }));
    await server.held();
    clock.advance(100);
    await until('it was told', () => own.length === 2);
    expect(own).toEqual(['error PROTOCOL_SEQUENCE_TIMEOUT', 'end']);
    other.release();
    expect(clock.timers).toBeLessThan(5);
  });

  it('ends once, and leaves no timer, when the server answers with an error', async () => {
    const clock = new FakeClock();
    const connection = await create({ queryTimeoutMs: 5_000, clock });
    server.reaction = () => ({ code: 1064, message: 'no' });
    const { timers } = clock;
    const heard = heardOf(connection.query('SELEC'));
    await until('it was told', () => heard.length === 2);
    expect(heard).toEqual(['error ER_PARSE_ERROR', 'end']);
    expect(clock.timers).toBe(timers);
    server.end('badly');
    await until('it is gone', () => cluster.balancer.snapshot().endpoints.every((one) => one.inFlight === 0));
    expect(heard).toHaveLength(2);
  });

  it('reaches the other listeners when one throws', async () => {
    const connection = await create();
    server.reaction = () => 'hold';
    const uncaught: unknown[] = [];
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => uncaught.push(error));
    try {
      connection.query('SELECT id').on('error', () => {
        throw new Error('a mistake');
      });
      const heard = heardOf(connection.query('SELECT id'));
      await server.held();
      server.end('cleanly');
      await until('it was told', () => heard.length === 2 && uncaught.length === 1);
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const listener of others) process.on('uncaughtException', listener);
    }
  });

  it.each([
    [1290, 'running with the --read-only option'],
    [1836, 'Running in read-only mode'],
    [1792, 'Cannot execute statement in a READ ONLY transaction'],
  ])(
    'a server that says it is read-only (%i): a new connection is opened, possibly to another server',
    async (code, message) => {
      const held = await create();
      held.release();
      server.reaction = (sql) => (sql.startsWith('INSERT') ? { code, message } : 'id');
      const [refusing] = server.connections;
      await expect(cluster.query('INSERT')).rejects.toMatchObject({ errno: code });
      await until('it was told goodbye', () => refusing?.quit === true);
      // Of a connection that is checked out its user decides; it goes when it is given back.
      const connection = await cluster.getConnection();
      const mine = server.connections.find(({ id }) => id === connection.threadId);
      await expect(connection.query('INSERT')).rejects.toMatchObject({ errno: code });
      await connection.query('ROLLBACK');
      expect(mine?.quit).toBe(false);
      connection.release();
      await until('it was told goodbye, too', () => mine?.quit === true);
      await cluster.query('SELECT id');
      expect(cluster.balancer.snapshot().endpoints[0]).toMatchObject({ state: 'ready', failed: 0 });
    },
  );
});

describe.skipIf(noMariadb)(titled('with a real server, a result that is read as a stream'), () => {
  let world: MariadbWorld;
  const rows = 20_000;
  beforeAll(async () => {
    world = await startMariadbs(1, {
      init: [
        'CREATE TABLE IF NOT EXISTS numbers (n INT PRIMARY KEY, filler CHAR(200))',
        `REPLACE INTO numbers WITH RECURSIVE seq AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM seq WHERE n < ${rows}) SELECT n, REPEAT('x', 200) FROM seq`,
        'CREATE TABLE IF NOT EXISTS loaded (n INT)',
      ],
      args: ['--local-infile=1', '--max-recursive-iterations=100000'],
    });
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    await cluster?.end();
  });
  const create = async (options: Partial<PoolClusterOptions> = {}): Promise<PoolConnection> => {
    cluster = createPoolCluster({ resolver: staticEndpoints(world.endpoints), ...application, ...options });
    return checkOut();
  };
  const threadOf = (connection: PoolConnection): number => (connection as unknown as { threadId: number }).threadId;

  it('is complete, however slowly it is read', async () => {
    const clock = new FakeClock();
    const connection = await create({ queryTimeoutMs: 5_000, clock });
    let count = 0;
    for await (const _row of connection.query('SELECT * FROM numbers').stream({ highWaterMark: 10 })) {
      if (++count % 1_000 === 0) {
        await new Promise(setImmediate);
        // The reader is slow, not the server.
        clock.advance(4_000);
      }
    }
    expect(count).toBe(rows);
    connection.release();
  });

  it.each(['query', 'execute'] as const)(
    '(%s) fails when its connection is killed half-way, and nothing keeps waiting',
    async (method) => {
      const connection = await create();
      // 80 MB: what socket buffers hold (4 MB and more) is read to its end although the server is gone.
      const sql = 'SELECT a.* FROM numbers a JOIN numbers b ON b.n <= 20';
      const stream = connection[method](sql).stream({ highWaterMark: 10 });
      const reading = (async () => {
        let count = 0;
        for await (const _row of stream) {
          if (++count === 100) await world.at(0).sql(`KILL CONNECTION ${threadOf(connection)}`);
        }
        return count;
      })();
      await expect(reading).rejects.toMatchObject({ fatal: true });
      connection.release();
      await cluster.query('SELECT 1');
    },
  );

  it('fails once if the statement is still being prepared', async () => {
    const connection = await create();
    const heard = heardOf(connection.query('SELECT SLEEP(600)'));
    const prepared = heardOf(connection.execute('SELECT 1') as unknown as Query);
    await until(
      'it runs',
      async () =>
        (await world.at(0).sql("SELECT 1 FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'")).length >
        0,
    );
    await world.at(0).sql(`KILL CONNECTION ${threadOf(connection)}`);
    await until('both have heard', () => heard.includes('end') && prepared.includes('end'));
    expect(prepared.filter((what) => what.startsWith('error'))).toHaveLength(1);
    expect(heard.filter((what) => what.startsWith('error'))).toHaveLength(1);
    connection.release();
  });

  it('a LOAD DATA LOCAL without a way to read the file fails, and the transaction goes on', async () => {
    const connection = await create();
    const promised = connection.promise();
    const thread = threadOf(connection);
    await promised.query('DELETE FROM loaded');
    await promised.beginTransaction();
    await promised.query('INSERT INTO loaded VALUES (1)');
    const sql = "LOAD DATA LOCAL INFILE 'nowhere' INTO TABLE loaded";
    await expect(promised.query(sql)).rejects.toThrow('LOCAL INFILE');
    const broken = (): Readable =>
      new Readable({ read: (): never => undefined as never }).destroy(new Error('no such file')) as Readable;
    await expect(promised.query({ sql, infileStreamFactory: broken } as never)).rejects.toThrow('no such file');
    await promised.query('INSERT INTO loaded VALUES (2)');
    await promised.commit();
    connection.release();
    expect((await cluster.query('SELECT n, CONNECTION_ID() AS id FROM loaded ORDER BY n'))[0]).toEqual([
      { n: 1, id: thread },
      { n: 2, id: thread },
    ]);
    // So it is with a statement of the cluster. A callback gets the server's answer with the error, as from a pool of mysql2.
    await expect(cluster.query(sql)).rejects.toThrow('LOCAL INFILE');
    const loaded = await new Promise<number | undefined>((resolve) => {
      cluster.query(sql, (_error, answer: ResultSetHeader | undefined) => resolve(answer?.affectedRows));
    });
    expect(loaded).toBe(0);
    expect((await cluster.query('SELECT CONNECTION_ID() AS id'))[0]).toEqual([{ id: thread }]);
  });
});
