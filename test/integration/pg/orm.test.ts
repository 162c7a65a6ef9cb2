import { sql as drizzleSql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable } from 'drizzle-orm/pg-core';
import { createPool, type PgPool } from 'evenkeel/pg';
import { FakeResolver } from 'evenkeel/testing';
import knex from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import { until } from '../../support/until.js';

interface Schema {
  readonly accounts: { readonly id: number; readonly balance: number };
}

describe.skipIf(noPostgres)(titled('query builders on createPool'), () => {
  let world: PostgresWorld;
  let pool: PgPool;
  beforeAll(async () => {
    world = await startPostgres(0, {
      init: [
        'CREATE TABLE accounts (id int PRIMARY KEY, balance int)',
        'INSERT INTO accounts VALUES (1, 100), (2, 100)',
      ],
    });
  });
  afterAll(async () => {
    await world?.close();
  });
  beforeEach(() => {
    const resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    pool = createPool({ resolver, role: 'primary', ...application });
  });
  afterEach(async () => {
    if (!pool.ending) await pool.end();
    await until('nothing is left open', async () => (await world.at(0).connections()) === 0);
  });
  const sum = async (): Promise<number> => (await world.at(0).sql('SELECT sum(balance)::int AS n FROM accounts'))[0].n;
  const failed = new Error('on purpose');

  it('Knex', async () => {
    const db = knex({ client: 'pg', connectionPool: pool } as never);
    expect(await db('accounts').where({ id: 1 }).first('id')).toEqual({ id: 1 });
    await db.transaction(async (trx) => {
      await trx('accounts').where({ id: 1 }).decrement('balance', 10);
      await trx('accounts').where({ id: 2 }).increment('balance', 10);
    });
    const torn = db.transaction(async (trx) => {
      await trx('accounts').where({ id: 1 }).decrement('balance', 10);
      throw failed;
    });
    await expect(torn).rejects.toBe(failed);
    await db.destroy();
    expect(await sum()).toBe(200);
  });

  it('Kysely', async () => {
    const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
    expect(await db.selectFrom('accounts').select('id').where('id', '=', 2).execute()).toEqual([{ id: 2 }]);
    const torn = db.transaction().execute(async (trx) => {
      await trx.updateTable('accounts').set({ balance: 0 }).where('id', '=', 1).execute();
      throw failed;
    });
    await expect(torn).rejects.toBe(failed);
    expect(await sum()).toBe(200);
    await db.destroy();
    expect(pool.ended).toBe(true);
  });

  it('Drizzle', async () => {
    const accounts = pgTable('accounts', { id: integer('id'), balance: integer('balance') });
    const db = drizzle(pool);
    expect(await db.select({ id: accounts.id }).from(accounts).where(drizzleSql`id = 1`)).toEqual([{ id: 1 }]);
    const torn = db.transaction(async (trx) => {
      await trx.update(accounts).set({ balance: 0 });
      throw failed;
    });
    await expect(torn).rejects.toBe(failed);
    expect(await sum()).toBe(200);
  });
});
