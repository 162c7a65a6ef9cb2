import { staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { createCertificate } from 'evenkeel/testing/servers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/mariadb.js';
import { until } from '../../support/until.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const certificate = createCertificate({ commonName: 'mysql', hosts: ['mysql-read.shop'], issuer: authority });

describe.skipIf(noMariadb)(titled('createPoolCluster over TLS'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster;
  beforeAll(async () => {
    world = await startMariadbs(2, { tls: certificate });
  });
  afterEach(async () => {
    await cluster?.end();
  });
  afterAll(async () => {
    await world?.close();
  });
  const create = (options: Partial<PoolClusterOptions>): PoolCluster => {
    cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints),
      host: 'mysql-read.shop',
      waitTimeoutMs: 10_000,
      ...application,
      ...options,
    });
    return cluster;
  };
  /** Asks, without waiting long, once the servers were refused. */
  const refused = async (): Promise<unknown> => {
    await until('they were refused', () =>
      cluster.balancer.snapshot().endpoints.some(({ lastError }) => lastError !== undefined),
    );
    return cluster.query('SELECT 1');
  };
  const cipher = async (): Promise<string> => {
    const [[row]] = (await cluster.query("SHOW STATUS LIKE 'Ssl_cipher'")) as unknown as [[{ Value: string }]];
    return row.Value;
  };

  it("dials the pod and checks the Service's name", async () => {
    const ssl = { ca: authority.cert };
    create({ ssl });
    expect(await cipher()).not.toBe('');
    // Several connections at once, and one that is used again.
    await Promise.all(Array.from({ length: 10 }, () => cluster.query('SELECT 1')));
    expect(ssl).toEqual({ ca: authority.cert });
  });

  it('refuses a certificate for another name, by default', async () => {
    create({ host: 'mysql.elsewhere', ssl: { ca: authority.cert }, waitTimeoutMs: 100 });
    await expect(refused()).rejects.toMatchObject({
      code: 'EVENKEEL_NOT_READY',
      message: expect.stringMatching(/does not match certificate's altnames/),
    });
  });

  it('refuses an unknown authority, by default', async () => {
    create({ ssl: {}, waitTimeoutMs: 100 });
    await expect(refused()).rejects.toMatchObject({
      message: expect.stringMatching(/unable to verify|self.signed/),
    });
  });

  it('takes any certificate only where that is said', async () => {
    create({ host: 'mysql.elsewhere', ssl: { ca: authority.cert, verifyIdentity: false } });
    expect(await cipher()).not.toBe('');
  });

  it('wants a name to check', () => {
    const options = { resolver: staticEndpoints(world.endpoints), ssl: { ca: authority.cert }, ...application };
    expect(() => createPoolCluster(options)).toThrow(/ssl needs `host`/);
    expect(() => createPoolCluster({ ...options, host: '10.0.0.1' })).toThrow(/10\.0\.0\.1 is an address/);
  });

  it('ends connections in order, and by force', async () => {
    create({ ssl: { ca: authority.cert } });
    const connection = await cluster.getConnection();
    await connection.query('SELECT 1');
    connection.destroy();
    await expect(connection.query('SELECT 1')).rejects.toThrow();
    expect(await cipher()).not.toBe('');
    await cluster.end();
    for (const server of world.all) expect(await server.connections()).toBe(0);
  });
});
