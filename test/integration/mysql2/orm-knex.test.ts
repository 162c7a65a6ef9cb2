import type { PoolCluster } from 'evenkeel/mysql2';
import knex from 'knex';
import { describeOrm, type Orm } from './support/orm.js';

/** Knex prints what it throws anyway. */
const silent = { warn() {}, error() {}, deprecate() {}, debug() {} };

function open(cluster: PoolCluster): Orm {
  const db = knex({ client: 'mysql2', connectionPool: cluster, log: silent });
  return {
    async server() {
      const row = await db.select(db.raw('@@server_id AS id')).first();
      return row.id;
    },
    transfer: (fail) =>
      db.transaction(async (transaction) => {
        const { id } = await transaction.select(transaction.raw('@@server_id AS id')).first();
        await transaction('accounts').where({ id: 1 }).decrement('balance', 10);
        await transaction('accounts').where({ id: 2 }).increment('balance', 10);
        if (fail) throw fail;
        return id;
      }),
    hold: (end, opened) =>
      db.transaction(async (transaction) => {
        await transaction.select(transaction.raw('1'));
        opened();
        await end;
      }),
    close: () => db.destroy(),
  };
}

describeOrm({ name: 'Knex', open, repeats: false });
