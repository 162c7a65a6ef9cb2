import { staticEndpoints } from 'evenkeel';
import { createPool, type PgPool, type PgPoolOptions } from 'evenkeel/pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const certificate = createCertificate({ commonName: 'postgres', hosts: ['postgres.shop'], issuer: authority });
const ssl = { ca: authority.cert };

describe.skipIf(noPostgres)(titled('createPool over TLS'), () => {
  let world: PostgresWorld;
  let pool: PgPool;
  beforeAll(async () => {
    world = await startPostgres(0, { tls: certificate });
  });
  afterEach(async () => {
    await pool?.end();
  });
  afterAll(async () => {
    await world?.close();
  });
  const open = (options: PgPoolOptions): PgPool => {
    pool = createPool({ resolver: staticEndpoints(world.endpoints), role: 'primary', ...application, ...options });
    return pool;
  };

  it("dials the pod and checks the Service's name", async () => {
    open({ ssl, host: 'postgres.shop' });
    const { rows } = await pool.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()');
    expect(rows).toEqual([{ ssl: true }]);
  });

  it('reports at once that the certificate is for another name, or from an unknown authority', async () => {
    const refused = { code: 'EVENKEEL_CONNECT' };
    await expect(open({ ssl, host: 'orders.shop' }).query('SELECT 1')).rejects.toMatchObject(refused);
    await pool.end();
    await expect(open({ ssl: true, host: 'postgres.shop' }).query('SELECT 1')).rejects.toMatchObject(refused);
  });

  it("takes the Service's name from the target, whatever a connection string says", async () => {
    const { user, password, database } = application;
    const { address, port } = world.at(0);
    const connectionString = `postgres://${user}:${password}@elsewhere.invalid:1/${database}`;
    // A list of addresses takes its name from `host`.
    open({ resolver: undefined, target: `static:${address}:${port}`, host: 'postgres.shop', ssl, connectionString });
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });
});
