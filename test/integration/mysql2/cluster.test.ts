import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import {
  activeHealth,
  conditions,
  type Observer,
  type Outcome,
  panic,
  roundRobin,
  type StageFactory,
  staticEndpoints,
} from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import type { QueryOptions } from 'mysql2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { hasIpv6, Ipv6Door, needsIpv6 } from '../../support/pods/ipv6.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { canReset } from './support/peer.js';

describe.skipIf(noMariadb)(titled('createPoolCluster: the shape of a mysql2 pool'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster | undefined;
  beforeAll(async () => {
    world = await startMariadbs(3, { init: ['CREATE TABLE IF NOT EXISTS t (a INT PRIMARY KEY, b VARCHAR(20))'] });
  });
  afterEach(async () => {
    await cluster?.end();
    cluster = undefined;
  });
  afterAll(async () => {
    await world?.close();
  });
  const create = (more: Partial<PoolClusterOptions> = {}): PoolCluster => {
    cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints),
      picker: roundRobin(),
      ...application,
      ...more,
    });
    return cluster;
  };
  const inFlight = (of: PoolCluster): number =>
    of.balancer.snapshot().endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight, 0);

  it.runIf(hasIpv6)(titleOf('accepts an IPv6 address as host, and in its target', hasIpv6, needsIpv6), async () => {
    const { port } = world.endpoints[0] as { port: number };
    await using door = await Ipv6Door.open(port);
    for (const server of [{ host: '::1', port }, { target: `[::1]:${port}` }]) {
      const before = door.accepted;
      cluster = createPoolCluster({ ...application, ...server });
      const [rows] = await cluster.query<never[]>('SELECT 1 AS one');
      expect(rows).toEqual([{ one: 1 }]);
      await cluster.end();
      expect(door.accepted).toBeGreaterThan(before);
    }
  });

  it('answers query and execute with rows and fields', async () => {
    const replicas = create();
    for (const method of ['query', 'execute'] as const) {
      const [rows, fields] = await replicas[method]<never[]>('SELECT @@server_id > 0 AS known, ? AS given', [7]);
      expect(rows).toEqual([{ known: 1, given: 7 }]);
      expect(fields.map(({ name }) => name)).toEqual(['known', 'given']);
    }
    expect(inFlight(replicas)).toBe(0);
  });

  it('spreads over all servers', async () => {
    const replicas = create();
    await until('all are connected', () => {
      const { endpoints } = replicas.balancer.snapshot();
      return endpoints.length === 3 && endpoints.every(({ state }) => state === 'ready');
    });
    const seen = new Set<number>();
    for (let i = 0; i < 3; i++) {
      const [rows] = await replicas.query<never[]>('SELECT @@server_id AS id');
      seen.add((rows[0] as unknown as { id: number }).id);
    }
    expect(seen.size).toBe(3);
  });

  it('keeps a checked-out connection for its caller until it is released', async () => {
    const replicas = create();
    const connection = await replicas.getConnection();
    const { threadId } = connection;
    await connection.beginTransaction();
    await connection.query('SELECT 1');
    expect(connection.threadId).toBe(threadId);
    expect(inFlight(replicas)).toBe(1);
    await connection.rollback();
    connection.release();
    connection.release();
    expect(inFlight(replicas)).toBe(0);
  });

  it('returns an SQL error as mysql2 does, and uses the connection again', async () => {
    const replicas = create({ resolver: staticEndpoints(world.endpoints.slice(0, 1)) });
    await replicas.query('SELECT 1');
    const before = await world.at(0).connections();
    await expect(replicas.query('SELEC')).rejects.toMatchObject({ code: 'ER_PARSE_ERROR', errno: 1064 });
    await expect(replicas.execute('SELECT ?', [undefined])).rejects.toThrow('undefined');
    expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0, inFlight: 0 });
    expect(await world.at(0).connections()).toBe(before);
  });

  describe('when a typeCast of the application throws', () => {
    const mistake = new TypeError('a mistake in typeCast');
    const typeCast = (): never => {
      throw mistake;
    };
    const sql = 'SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 3';
    const cases: [string, Partial<PoolClusterOptions>, (replicas: PoolCluster) => Promise<unknown>][] = [
      ['of the cluster', { typeCast }, (replicas) => replicas.query(sql)],
      ['of the cluster, prepared', { typeCast }, (replicas) => replicas.execute(sql)],
      ['of a statement', {}, (replicas) => replicas.query({ sql, typeCast })],
      ['of a statement, prepared', {}, (replicas) => replicas.execute({ sql, typeCast })],
      ['of a statement on a checked-out connection', {}, (replicas) => onConnection(replicas, { sql, typeCast })],
      ['of a checked-out connection', { typeCast }, (replicas) => onConnection(replicas, { sql })],
    ];
    const onConnection = async (replicas: PoolCluster, statement: QueryOptions): Promise<unknown> => {
      const connection = await replicas.getConnection();
      try {
        return await connection.query(statement);
      } finally {
        connection.release();
      }
    };

    it.each(cases)('%s: its caller gets the error and the server is not blamed', async (_what, options, ask) => {
      const resolver = staticEndpoints(world.endpoints.slice(0, 1));
      const ends: Outcome[] = [];
      const lost: (Error | undefined)[] = [];
      const observer: Observer = {
        attemptEnded: ({ outcome }) => ends.push(outcome),
        subchannelChanged: ({ to, error }) => to !== 'ready' && lost.push(error),
      };
      const replicas = create({ resolver, observer, ...options });
      // More than it takes for an ejection.
      for (let count = 0; count < 8; count++) await expect(ask(replicas)).rejects.toThrow(mistake.message);
      await until('it is given back', () => inFlight(replicas) === 0);
      expect(ends.map(({ kind }) => kind)).toEqual(Array(8).fill('success'));
      expect(lost.filter((error) => error !== undefined)).toEqual([]);
      expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0, suspect: false });
      // What was left of an answer reaches nobody else.
      const plain: QueryOptions = { sql: 'SELECT 7 AS seven', typeCast: (_field, next) => next() };
      expect((await replicas.query(plain))[0]).toEqual([{ seven: 7 }]);
    });

    it('a file that it cannot read is not held against the server either', async () => {
      const sql = "LOAD DATA LOCAL INFILE 'nowhere' INTO TABLE t";
      const infileStreamFactory = (): Readable => createReadStream('/nowhere/at/all');
      const replicas = create({ resolver: staticEndpoints(world.endpoints.slice(0, 1)), infileStreamFactory });
      const other = (): never => {
        throw mistake;
      };
      for (let count = 0; count < 4; count++) {
        await expect(replicas.query(sql)).rejects.toMatchObject({ code: 'ENOENT' });
        await expect(replicas.query({ sql, infileStreamFactory: other })).rejects.toBe(mistake);
        await expect(onConnection(replicas, { sql })).rejects.toMatchObject({ code: 'ENOENT' });
      }
      expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ state: 'ready', failed: 0, suspect: false });
    });

    it('a connection that is destroyed is not held against the server either', async () => {
      const lost: unknown[] = [];
      const observer: Observer = { subchannelChanged: ({ to, error }) => to === 'backoff' && lost.push(error) };
      const replicas = create({ resolver: staticEndpoints(world.endpoints.slice(0, 1)), observer });
      for (let count = 0; count < 8; count++) {
        const connection = await replicas.getConnection();
        const { stream } = connection.connection as unknown as { readonly stream: Socket };
        connection.destroy();
        await once(stream, 'close');
      }
      await replicas.query('SELECT 1');
      expect(lost).toEqual([]);
      expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ state: 'ready', failed: 0 });
    });

    it("evenkeel's own queries do not use it", async () => {
      await world.at(0).setReadOnly(true);
      try {
        const replicas = create({ resolver: staticEndpoints(world.endpoints), typeCast, role: 'primary' });
        const standbyServers = (): number =>
          replicas.balancer.snapshot().endpoints.filter(({ weight }) => weight === 0).length;
        await until('the one that takes no writes stands by', () => standbyServers() === 1);
      } finally {
        await world.at(0).setReadOnly(false);
      }
    });

    it('a thrown value that is not an Error is the cause of one', async () => {
      const replicas = create({ resolver: staticEndpoints(world.endpoints.slice(0, 1)) });
      const odd = (): never => {
        throw 'odd';
      };
      await expect(replicas.query({ sql, typeCast: odd })).rejects.toMatchObject({ cause: 'odd' });
      await expect(replicas.execute({ sql, typeCast: odd })).rejects.toMatchObject({ cause: 'odd' });
      expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0 });
    });
  });

  const needs322 = 'it needs mysql2 3.22';
  it.skipIf(canReset)(
    titleOf(
      'refuses resetOnRelease where it cannot be had, instead of ignoring it',
      !canReset,
      'it needs a mysql2 before 3.22',
    ),
    () => {
      expect(() => create({ resetOnRelease: true })).toThrow('resetOnRelease needs mysql2 3.22 or newer');
    },
  );

  it.runIf(canReset)(
    titleOf('gives each user of a connection a clean session with resetOnRelease', canReset, needs322),
    async () => {
      const replicas = create({ resolver: staticEndpoints(world.endpoints.slice(0, 1)), resetOnRelease: true });
      const first = await replicas.getConnection();
      await first.query('SET @mine = 7');
      const { threadId } = first;
      first.release();
      await until('it is back', () => inFlight(replicas) === 0);
      const second = await replicas.getConnection();
      expect(second.threadId).toBe(threadId);
      expect((await second.query('SELECT @mine AS mine'))[0]).toEqual([{ mine: null }]);
      second.release();
    },
  );

  it.runIf(canReset)(
    titleOf(
      'does not cut a connection under its next user, however long ago its reset for resetOnRelease began',
      canReset,
      needs322,
    ),
    async () => {
      const clock = new FakeClock();
      const replicas = create({
        resolver: staticEndpoints(world.endpoints.slice(0, 1)),
        resetOnRelease: true,
        clock,
      });
      const first = await replicas.getConnection();
      first.release();
      await until('it is back', () => inFlight(replicas) === 0);
      const second = await replicas.getConnection();
      expect(second.threadId).toBe(first.threadId);
      await clock.advance(5_000);
      await second.query('SELECT 1');
      second.release();
      await until('it is back', () => inFlight(replicas) === 0);
    },
  );

  it('finds a frozen server by its health checks, before any call goes there', async () => {
    const replicas = create({
      stages: [conditions(), activeHealth({ intervalMs: 50, timeoutMs: 3_000, unhealthyAfter: 2 }), panic()],
    });
    const suspect = (): boolean[] => replicas.balancer.snapshot().endpoints.map((endpoint) => endpoint.suspect);
    await until('all are connected', () => {
      const { endpoints } = replicas.balancer.snapshot();
      return endpoints.length === 3 && endpoints.every(({ state }) => state === 'ready');
    });
    world.at(2).freeze();
    const key = `${world.at(2).address}:${world.at(2).port}`;
    const isOut = (): boolean => {
      const at = replicas.balancer.snapshot().endpoints.find((endpoint) => endpoint.key === key);
      return at?.state !== 'ready' || at.suspect;
    };
    await until('it is out', isOut);
    for (let i = 0; i < 6; i++) await replicas.query('SELECT 1');
    world.at(2).thaw();
    await until('it is back', () => suspect().every((is) => !is) && !isOut());
  });

  it('follows only the chosen pods of a StatefulSet, with a stage that leaves out the others', async () => {
    const resolver = new FakeResolver();
    resolver.update(...world.all.map(({ endpoint, name }) => ({ ...endpoint, name })));
    const only = (isUsed: (name?: string) => boolean): StageFactory[] => [
      () => ({ apply: (set) => set.filter(({ endpoint }) => isUsed(endpoint.name)) }),
    ];
    const cluster = create({
      resolver,
      services: {
        primary: { stages: only((name) => name === 'mysql-0') },
        rest: { stages: only((name) => name !== 'mysql-0') },
      },
    });
    const ids = async (name: string): Promise<Set<number>> => {
      const seen = new Set<number>();
      for (let i = 0; i < 6; i++) {
        const [rows] = await cluster.of(name).query<never[]>('SELECT @@server_id AS id');
        seen.add((rows[0] as unknown as { id: number }).id);
      }
      return seen;
    };
    await until('all are connected', () => {
      const states = [...cluster.balancers.values()].flatMap((balancer) => balancer.snapshot().endpoints);
      return states.length === 3 && states.every(({ state }) => state === 'ready');
    });
    expect(await ids('primary')).toEqual(new Set([1]));
    expect(await ids('rest')).toEqual(new Set([2, 3]));
  });

  it('waits for a checked-out connection when it is ended, and cuts nobody', async () => {
    const replicas = create();
    const connection = await replicas.getConnection();
    await connection.beginTransaction();
    const ending = replicas.end();
    await expect(replicas.query('SELECT 1')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    await connection.query('INSERT INTO t VALUES (1, 2)');
    await connection.rollback();
    connection.release();
    await ending;
    for (const server of world.all) await until('nothing is open', async () => (await server.connections()) === 0);
  });
});
