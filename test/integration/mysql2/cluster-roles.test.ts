import { roundRobin, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeResolver } from 'evenkeel/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { until } from '../../support/until.js';

const tables = [
  'CREATE TABLE IF NOT EXISTS t (a INT)',
  'CREATE TABLE IF NOT EXISTS beat (lag INT)',
  'INSERT INTO beat VALUES (0)',
];

describe.skipIf(noMariadb)(titled('createPoolCluster: services and roles'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster;
  beforeAll(async () => {
    world = await startMariadbs(4, { init: tables });
  });
  afterAll(async () => {
    await world?.close();
  });
  beforeEach(() => world.renew());
  afterEach(async () => {
    await cluster?.end();
  });
  const at = (...servers: number[]) => staticEndpoints(servers.map((index) => world.at(index).endpoint));
  const ids = async (ask: () => Promise<unknown>, times: number): Promise<Set<number>> => {
    const seen = new Set<number>();
    for (let i = 0; i < times; i++) {
      const [rows] = (await ask()) as [{ id: number }[]];
      seen.add(rows[0]?.id as number);
    }
    return seen;
  };
  const id = 'SELECT @@server_id AS id';
  const allReady = (): boolean => cluster.balancer.snapshot().endpoints.every(({ state }) => state === 'ready');
  const start = async (options: Partial<PoolClusterOptions>): Promise<void> => {
    cluster = createPoolCluster({ picker: roundRobin(), ...application, ...options });
    await until('all are connected', () =>
      [...cluster.balancers.values()].every((balancer) => {
        const { endpoints } = balancer.snapshot();
        return endpoints.length > 0 && endpoints.every(({ state }) => state === 'ready');
      }),
    );
  };

  it('sends a statement to the service it is meant for, by name, pattern or selector', async () => {
    await start({
      services: {
        primary: { resolver: at(0), role: 'primary' },
        'replica-a': { resolver: at(1, 2), idempotent: true },
        'replica-b': { resolver: at(3) },
      },
    });
    expect(await ids(() => cluster.of('primary').query(id), 4)).toEqual(new Set([1]));
    expect(await ids(() => cluster.of('replica-a').query(id), 6)).toEqual(new Set([2, 3]));
    expect(await ids(() => cluster.of('replica*').query(id), 12)).toEqual(new Set([2, 3, 4]));
    expect(await ids(() => cluster.of('replica*', 'ORDER').query(id), 6)).toEqual(new Set([2, 3]));
    expect(await ids(() => cluster.query(id), 16)).toEqual(new Set([1, 2, 3, 4]));
    const connection = await cluster.getConnection('primary');
    expect(await ids(() => connection.query(id), 1)).toEqual(new Set([1]));
    connection.release();
    expect([...cluster.balancers.keys()]).toEqual(['primary', 'replica-a', 'replica-b']);
    expect(() => cluster.of('nobody')).toThrow(
      /no service is called "nobody"; there are primary, replica-a, replica-b/,
    );
    expect(() => cluster.of('*', 'BEST' as never)).toThrow(/selector must be/);
  });

  it('uses another service of the pattern when one has no server', async () => {
    await start({ services: { near: { resolver: at(0) }, far: { resolver: at(1) } }, idempotent: true });
    await world.at(0).kill();
    await until('it is noticed', () => cluster.balancer.snapshot().endpoints[0]?.state !== 'ready');
    expect(await ids(() => cluster.of('*', 'ORDER').query(id), 4)).toEqual(new Set([2]));
  });

  it('fails over: a writer that turns read-only stands by, its refused write goes to the new writer, and no connection is cut', async () => {
    await start({ resolver: at(0, 1), role: 'primary' });
    await world.at(1).setReadOnly(true);
    const write = (): Promise<unknown> => cluster.query('INSERT INTO t VALUES (1)');
    // The second was connected before it was read-only: it finds out by being refused, the caller does not.
    for (let i = 0; i < 10; i++) await write();
    expect(await world.at(1).sql('SELECT * FROM shop.t')).toEqual([]);
    const weights = (): number[] => cluster.balancer.snapshot().endpoints.map(({ weight }) => weight);
    expect(weights()).toEqual([1, 0]);
    const connected = await world.at(1).connections();
    expect(connected).toBeGreaterThan(0);

    await world.at(0).setReadOnly(true);
    const waiting = write();
    await until('none takes writes', () => weights().every((weight) => weight === 0));
    await world.at(1).setReadOnly(false);
    await waiting;
    expect(await world.at(1).sql('SELECT COUNT(*) AS n FROM shop.t')).toEqual([{ n: 1 }]);
    expect(await world.at(1).connections()).toBe(connected);
  });

  it('acknowledges no write on a primary that was frozen while a replica took over', async () => {
    await world.at(1).setReadOnly(true);
    cluster = createPoolCluster({ resolver: at(0, 1), role: 'primary', ...application });
    const weights = (): number[] => cluster.balancer.snapshot().endpoints.map(({ weight }) => weight);
    await until('the primary is known', () => weights().join() === '1,0' && allReady());
    const begin = async () => {
      const connection = await cluster.getConnection();
      await connection.beginTransaction();
      await connection.query('INSERT INTO t VALUES (1)');
      return connection;
    };
    const committing = await begin();
    const idle = await begin();
    const [old, next] = [world.at(0), world.at(1)];
    // Leaves an idle connection, on which the next statement is sent.
    await cluster.query('INSERT INTO t VALUES (1)');
    old.freeze();
    const commit = committing.commit().then(() => 'acknowledged', String);
    const write = cluster.query('INSERT INTO t VALUES (2)').then(() => 'acknowledged', String);
    await next.setReadOnly(false);
    const superseded = `superseded by 127.0.0.1:${next.port}`;
    try {
      expect(await commit).toContain(superseded);
      expect(await write).toContain(superseded);
      // The next one takes writes meanwhile.
      await cluster.query('INSERT INTO t VALUES (3)');
    } finally {
      old.thaw();
    }
    await expect(idle.commit()).rejects.toThrow();
    for (const connection of [committing, idle]) connection.release();
    // It still takes writes, and is connected again: it gets none.
    await until('both are connected', allReady);
    expect(weights()).toEqual([0, 1]);
    expect(await ids(() => cluster.query(id), 6)).toEqual(new Set([2]));
    // As its replica it is of use again, also as the next primary.
    await old.setReadOnly(true);
    await next.setReadOnly(true);
    const waiting = cluster.query('INSERT INTO t VALUES (4)');
    await until('it is known that none takes writes', () => weights().join() === '0,0');
    await old.setReadOnly(false);
    await waiting;
    expect(weights()).toEqual([1, 0]);
  });

  it('finds the one writer among several by a query when it connects', async () => {
    await world.at(0).setReadOnly(true);
    cluster = createPoolCluster({ resolver: at(0, 1), picker: roundRobin(), role: 'primary', ...application });
    await until('it is known', () => {
      const { endpoints } = cluster.balancer.snapshot();
      return endpoints.every(({ state }) => state === 'ready') && endpoints[0]?.weight === 0;
    });
    expect(await ids(() => cluster.query(id), 4)).toEqual(new Set([2]));
  });

  it('sends even the first statements after ready() to the server that accepts writes', async () => {
    for (const index of [0, 1]) await world.at(index).setReadOnly(true);
    for (let round = 0; round < 5; round++) {
      await cluster?.end();
      cluster = createPoolCluster({ resolver: at(0, 1, 2), role: 'primary', ...application });
      await cluster.ready();
      const answers = await Promise.all(Array.from({ length: 20 }, () => ids(() => cluster.query(id), 1)));
      expect(new Set(answers.flatMap((seen) => [...seen]))).toEqual(new Set([3]));
    }
  });

  it('stops using a server that has become read-only, even if it is sent only reads', async () => {
    await start({ resolver: at(0), role: 'primary' });
    expect(await ids(() => cluster.query(id), 4)).toEqual(new Set([1]));
    await world.at(0).setReadOnly(true);
    await until('it stands by', () => cluster.balancer.snapshot().endpoints[0]?.weight === 0);
  });

  it('keeps using a replica that refuses a write: it was not meant to take any', async () => {
    await start({ resolver: at(0) });
    await world.at(0).setReadOnly(true);
    await expect(cluster.query('INSERT INTO t VALUES (1)')).rejects.toMatchObject({ errno: 1290 });
    expect(cluster.balancer.snapshot().endpoints[0]).toMatchObject({ weight: 1, failed: 0 });
    await cluster.query(id);
  });

  it('sends no reads to replicas that are too far behind, unless all are', async () => {
    await start({
      resolver: at(0, 1),
      maxLagMs: 10_000,
      probeIntervalMs: 50,
      lagProbe: 'SELECT MAX(lag) FROM beat',
    });
    const weights = (): number[] => cluster.balancer.snapshot().endpoints.map(({ weight }) => weight);
    await world.at(0).sql('UPDATE shop.beat SET lag = 60');
    await until('the first is spared', () => weights().join() === '0,1');
    expect(await ids(() => cluster.query(id), 4)).toEqual(new Set([2]));
    await world.at(1).sql('UPDATE shop.beat SET lag = NULL');
    await until('both are used', () => weights().join() === '1,1');
    await world.at(1).sql('UPDATE shop.beat SET lag = 0');
    await world.at(0).sql('UPDATE shop.beat SET lag = 9');
    // Not by the weights: until the first new answer they are those of two servers that are too far behind.
    await until('both are in time', async () => (await ids(() => cluster.query(id), 4)).size === 2);
  });

  it('reads the lag from the replica status by default, and takes a server that does not replicate as up to date', async () => {
    const asked = async (): Promise<number> => {
      const [{ n }] = (await world
        .at(0)
        .sql(
          "SELECT VARIABLE_VALUE AS n FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_SHOW_SLAVE_STATUS'",
        )) as [{ n: string }];
      return Number(n);
    };
    const before = await asked();
    await start({ resolver: at(0), maxLagMs: 0, probeIntervalMs: 20 });
    await until('it was asked', async () => (await asked()) > before + 1);
    expect(cluster.balancer.snapshot().endpoints[0]?.weight).toBe(1);
  });

  it('keeps the endpoints of each service apart', async () => {
    const resolver = new FakeResolver();
    resolver.update();
    cluster = createPoolCluster({ services: { primary: { resolver: at(0) }, replica: { resolver } }, ...application });
    await cluster.ready();
    await expect(cluster.of('replica').query(id)).rejects.toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    expect(await ids(() => cluster.query(id), 2)).toEqual(new Set([1]));
    resolver.update(world.at(1).endpoint);
    await until('it came', () => cluster.balancers.get('replica')?.snapshot().state === 'ready');
    expect(await ids(() => cluster.of('replica').query(id), 2)).toEqual(new Set([2]));
  });
});
