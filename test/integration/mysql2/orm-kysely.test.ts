import type { PoolCluster } from 'evenkeel/mysql2';
import { Kysely, MysqlDialect, sql } from 'kysely';
import { describeOrm, type Orm } from './support/orm.js';

interface Database {
  readonly accounts: { readonly id: number; readonly balance: number };
}

function open(cluster: PoolCluster): Orm {
  const db = new Kysely<Database>({ dialect: new MysqlDialect({ pool: cluster }) });
  const who = async (on: Kysely<Database>): Promise<number> => {
    const { id } = await on.selectNoFrom(sql<number>`@@server_id`.as('id')).executeTakeFirstOrThrow();
    return id;
  };
  return {
    server: () => who(db),
    transfer: (fail) =>
      db.transaction().execute(async (transaction) => {
        const id = await who(transaction);
        const move = (account: number, amount: number) =>
          transaction
            .updateTable('accounts')
            .set(({ eb }) => ({ balance: eb('balance', '+', amount) }))
            .where('id', '=', account)
            .execute();
        await move(1, -10);
        await move(2, 10);
        if (fail) throw fail;
        return id;
      }),
    hold: (end, opened) =>
      db.transaction().execute(async (transaction) => {
        await who(transaction);
        opened();
        await end;
      }),
    // Ends the cluster, too, as it would a pool.
    close: () => db.destroy(),
  };
}

describeOrm({ name: 'Kysely', open, repeats: false });
