import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from '../../../src/adapter/mysql2/index.js';
import { roundRobin, staticEndpoints } from '../../../src/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/mariadb.js';
import { until } from '../../support/until.js';

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
    await until('all are connected', () =>
      replicas.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
    );
    const seen = new Set<number>();
    for (let i = 0; i < 3; i++) {
      const [rows] = await replicas.query<never[]>('SELECT @@server_id AS id');
      seen.add((rows[0] as unknown as { id: number }).id);
    }
    expect(seen.size).toBe(3);
  });

  it('keeps a checked-out connection with its caller until it is released', async () => {
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

  it('gives an error of SQL to its caller as mysql2 has it, and uses the connection again', async () => {
    const replicas = create({ resolver: staticEndpoints(world.endpoints.slice(0, 1)) });
    await replicas.query('SELECT 1');
    const before = await world.at(0).connections();
    await expect(replicas.query('SELEC')).rejects.toMatchObject({ code: 'ER_PARSE_ERROR', errno: 1064 });
    await expect(replicas.execute('SELECT ?', [undefined])).rejects.toThrow('undefined');
    expect(replicas.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 0, inFlight: 0 });
    expect(await world.at(0).connections()).toBe(before);
  });
});
