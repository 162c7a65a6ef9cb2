import { afterEach, describe, expect, it } from 'vitest';
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
