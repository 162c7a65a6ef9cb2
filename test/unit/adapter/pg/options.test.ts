import { afterEach, describe, expect, it, vi } from 'vitest';
import { createPool, type PgPool, ServicePool } from '../../../../src/adapter/pg/index.js';
import { poolSettings } from '../../../../src/adapter/pg/options.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';

const pools: PgPool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.end();
});

describe('options that neither pg nor evenkeel knows', () => {
  const library = {
    // Of pg-boss, Sequelize and graphile-worker.
    ...{ schema: 'pgboss', supervise: true, schedule: false, migrate: true, monitorIntervalSeconds: 60, uuid: 'v4' },
    ...{ archiveCompletedAfterSeconds: 3_600, deleteAfterDays: 7, retentionDays: 14, maintenanceIntervalMinutes: 2 },
    ...{ dialect: 'postgres', logging: false, define: {}, timezone: '+00:00', concurrency: 5, pollInterval: 1_000 },
    ...{ crontab: '', preparedStatements: true, useWarn: true, superuser: undefined, persistWarnings: true },
  };
  const fake = (): { readonly resolver: FakeResolver } => ({ resolver: new FakeResolver() });

  it('are ignored by ServicePool, which libraries give all of theirs, and refused by createPool', () => {
    pools.push(new ServicePool({ ...library, ...fake(), user: 'shop' } as never));
    for (const name of Object.keys(library)) {
      expect(() => createPool({ ...fake(), [name]: 1 }), name).toThrow(`options has no option "${name}"`);
    }
  });

  it.each(['tarqet', 'roles', 'maxLagMS', 'max_lag_ms', 'idempotant', 'waitTimeout', 'resolvr', 'stage', 'stream'])(
    '%s is refused by both: ignoring it would go unnoticed',
    (name) => {
      for (const open of [createPool, (given: object) => new ServicePool(given)]) {
        expect(() => open({ ...fake(), [name]: 1 } as never)).toThrow(`options has no option "${name}"`);
      }
    },
  );

  it("may be a clock that is not evenkeel's", () => {
    const clock = { now: () => 0, sleep: async () => {} };
    pools.push(new ServicePool({ ...fake(), clock } as never));
    expect(() => createPool({ ...fake(), clock } as never)).toThrow('clock.timer must be a function');
  });

  it('reach the clients, as with pg.Pool, which may know them one day', async () => {
    const configs: object[] = [];
    class Client {
      readonly connection = {};
      readonly host = 'postgres.shop';
      readonly port = 5432;
      constructor(config: object) {
        configs.push(config);
      }
    }
    pools.push(new ServicePool({ ...fake(), Client: Client as never, newInPg: 1, max: 3 } as never));
    expect(configs).toEqual([expect.objectContaining({ newInPg: 1 })]);
    expect(Object.keys(configs[0] as object)).not.toContain('max');
  });
});

it('poolSize is another name of max, as in pg.Pool', () => {
  const settings = (options: object): number => poolSettings({ user: 'shop', ...options }).max;
  expect([settings({ poolSize: 7 }), settings({ poolSize: 7, max: 3 })]).toEqual([7, 3]);
});

describe('the name that TLS checks', () => {
  const settings = (options: object): { readonly host: string } =>
    poolSettings({ resolver: new FakeResolver(), user: 'shop', ...options } as never);

  it.each([
    ['ssl: true', { ssl: true }, '`host`'],
    ['an authority', { ssl: { ca: 'PEM' } }, '`host`'],
    ['a connection string', { connectionString: 'postgres:///shop?sslmode=verify-full' }, 'a host in connectionString'],
  ])('must be given with a resolver (%s): pg would take localhost', (_what, options, needed) => {
    expect(() => settings(options)).toThrow(`ssl needs ${needed}, the name in the certificates of the servers`);
    const named = { host: 'postgres.shop', connectionString: 'postgres://postgres.shop/shop' };
    const [name] = Object.keys(options).filter((key) => key === 'connectionString');
    expect(settings({ ...options, ...(name === undefined ? { host: named.host } : named) }).host).toBe('postgres.shop');
  });

  it.each(['require', 'verify-full', 1, Symbol('ssl')])(
    '%s, which pg would not understand until a handshake, is refused',
    (ssl) => {
      const options = { ssl: ssl as never, host: 'localhost' };
      expect(() => settings(options)).toThrow('ssl must be true, false, or an object as for tls.connect');
    },
  );

  it.each(['true', 'no-verify', 0, null])('%s is as pg takes it', (ssl) => {
    expect(() => settings({ ssl: ssl as never, host: 'localhost' })).not.toThrow();
  });

  it.each([
    ['no TLS', {}],
    ['no check of the certificate', { ssl: { rejectUnauthorized: false } }],
    ['a check of the application', { ssl: { checkServerIdentity: () => undefined } }],
    ['localhost as host', { ssl: true, host: 'localhost' }],
    ['localhost in the connection string', { ssl: true, connectionString: 'postgres://localhost/shop' }],
  ])('need not be given with %s', (_what, options) => {
    expect(settings(options).host).toBe('localhost');
  });

  it('may come from the environment', () => {
    vi.stubEnv('PGHOST', 'postgres.shop');
    expect(settings({ ssl: true }).host).toBe('postgres.shop');
    vi.unstubAllEnvs();
  });
});

describe('what only libpq understands of a connection string', () => {
  const lists = [
    'postgresql://shop:pw@host1:5432,host2:5432/shop',
    'postgres://shop:@localhost:6432,localhost:5432/shop',
    'postgresql://shop@192.0.2.4,192.0.2.5:5432/shop',
    'postgresql:///shop?host=host1,host2&port=5432,5433',
    'postgres://u:p@host1:5432,u:p@host2:5432/shop',
  ];

  it.each(lists)('%s: several hosts', (connectionString) => {
    expect(() => poolSettings({ connectionString })).toThrow(
      expect.objectContaining({
        code: 'EVENKEEL_OPTION',
        message: expect.stringMatching(/^connectionString: pg connects to one host, not to a list: .*target.*role/),
      }),
    );
  });

  it('several hosts as an option', () => {
    expect(() => poolSettings({ host: 'host1,host2', user: 'shop' })).toThrow('host: pg connects to one host');
  });

  it.each([
    ['read-write', "say role: 'primary'"],
    ['standby', "say role: 'replica'"],
    ['prefer-standby', "say role: 'prefer-replica'"],
    ['constructor', 'say role'],
  ])('target_session_attrs=%s', (attribute, hint) => {
    const connectionString = `postgres://shop:pw@host1/shop?target_session_attrs=${attribute}`;
    expect(() => poolSettings({ connectionString, role: 'primary' })).toThrow(
      `pg ignores target_session_attrs in connectionString: leave it out, or give target, and ${hint}`,
    );
    const { host, role } = poolSettings({ connectionString, target: 'postgres.shop:5432', role: 'primary' });
    expect([host, role]).toEqual(['postgres.shop', 'primary']);
  });

  it('the host of an absolute name has no dot at its end, which no certificate has', () => {
    const target = 'postgres.shop.svc.cluster.local.:5432';
    expect(poolSettings({ target }).host).toBe('postgres.shop.svc.cluster.local');
  });

  it('a password with commas is no list', () => {
    for (const password of ['a,b', 'a,b:5432', 'a:1,b', '%40a,b']) {
      const { host } = poolSettings({ connectionString: `postgres://shop:${password}@postgres.shop:5432/shop` });
      expect(host).toBe('postgres.shop');
    }
  });
});
