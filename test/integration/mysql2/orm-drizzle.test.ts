import { eq, sql } from 'drizzle-orm';
import { int, mysqlTable } from 'drizzle-orm/mysql-core';
import { drizzle } from 'drizzle-orm/mysql2';
import type { PoolCluster } from 'evenkeel/mysql2';
import type { Pool } from 'mysql2/promise';
import { describeOrm, type Orm } from './support/orm.js';

const accounts = mysqlTable('accounts', { id: int().primaryKey(), balance: int().notNull() });

function open(cluster: PoolCluster): Orm {
  const db = drizzle(cluster as unknown as Pool);
  const who = async (on: Pick<typeof db, 'select'>): Promise<number> => {
    const [row] = await on.select({ id: sql<number>`@@server_id` }).from(accounts).limit(1);
    return row?.id as number;
  };
  return {
    server: () => who(db),
    transfer: (fail) =>
      db.transaction(async (transaction) => {
        const id = await who(transaction);
        const move = (account: number, amount: number) =>
          transaction
            .update(accounts)
            .set({ balance: sql`${accounts.balance} + ${amount}` })
            .where(eq(accounts.id, account));
        await move(1, -10);
        await move(2, 10);
        if (fail) throw fail;
        return id;
      }),
    hold: (end, opened) =>
      db.transaction(async (transaction) => {
        await who(transaction);
        opened();
        await end;
      }),
    close: async () => {},
  };
}

describeOrm({ name: 'Drizzle', open, repeats: true });
