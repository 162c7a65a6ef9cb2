import { staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';

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
      waitTimeoutMs: 120_000,
      ...application,
      ...options,
    });
    return cluster;
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

  it.each<[string, Partial<PoolClusterOptions>, RegExp]>([
    [
      'a certificate for another name',
      { host: 'mysql.elsewhere', ssl: { ca: authority.cert } },
      /does not match certificate's altnames/,
    ],
    ['an unknown authority', { ssl: {} }, /unable to (verify|get)|self.signed/],
  ])('refuses %s by default, and fails once all servers were tried', async (_what, options, message) => {
    // It does not wait: that would be longer than a test may take.
    create({ ...options, waitTimeoutMs: 600_000 });
    const refused = { code: 'EVENKEEL_CONNECT', message: expect.stringMatching(message) };
    await expect(cluster.query('SELECT 1')).rejects.toMatchObject(refused);
    await expect(cluster.getConnection()).rejects.toMatchObject(refused);
  });

  it('refuses servers without TLS, and fails once all were tried', async () => {
    const plain = await startMariadbs(1);
    try {
      create({ resolver: staticEndpoints(plain.endpoints), ssl: { ca: authority.cert }, waitTimeoutMs: 600_000 });
      await expect(cluster.query('SELECT 1')).rejects.toMatchObject({
        code: 'EVENKEEL_CONNECT',
        // From 11.4 on MariaDB makes itself a certificate.
        message: expect.stringMatching(/does not support secure connection|self.signed/),
      });
    } finally {
      await cluster.end();
      await plain.close();
    }
  });

  it('accepts any certificate only if told to', async () => {
    create({ host: 'mysql.elsewhere', ssl: { ca: authority.cert, verifyIdentity: false } });
    expect(await cipher()).not.toBe('');
  });

  it('needs a name to check', () => {
    const options = { resolver: staticEndpoints(world.endpoints), ssl: { ca: authority.cert }, ...application };
    expect(() => createPoolCluster(options)).toThrow(/ssl needs `host`/);
    expect(() => createPoolCluster({ ...options, host: '10.0.0.1' })).toThrow(/10\.0\.0\.1 is an address/);
  });

  it('closes connections in order, and by force', async () => {
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
