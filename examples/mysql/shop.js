// @ts-check
/** The application: reads are spread over the replicas, each order is booked in one transaction on the primary. */
import { createPoolCluster } from 'evenkeel/mysql2';

/** @typedef {import('evenkeel/mysql2').PoolClusterOptions} PoolClusterOptions */

/** @param {Pick<PoolClusterOptions, 'services' | 'user' | 'password' | 'database'> & Partial<PoolClusterOptions>} options */
export function openShop(options) {
  const cluster = createPoolCluster(options);
  const replicas = cluster.of('replica');
  const primary = cluster.of('primary');
  return {
    cluster,

    /** Reads the price of an item, and which server it came from. @param {number} id */
    async price(id) {
      const sql = 'SELECT price, @@server_id AS server FROM items WHERE id = ?';
      const [[row]] = await /** @type {Promise<any>} */ (replicas.execute(sql, [id]));
      return /** @type {{ price: number, server: number }} */ (row);
    },

    /**
     * Books an order and takes it from the stock: both or neither. A checked-out connection stays ours until it is released, whatever
     * happens to the Service meanwhile.
     * @param {number} item @param {number} amount @param {() => Promise<unknown>} [meanwhile] done in the middle of it
     */
    async order(item, amount, meanwhile = async () => {}) {
      const connection = await primary.getConnection();
      try {
        await connection.beginTransaction();
        await connection.execute('INSERT INTO orders (item, amount) VALUES (?, ?)', [item, amount]);
        await meanwhile();
        await connection.execute('UPDATE items SET stock = stock - ? WHERE id = ?', [amount, item]);
        await connection.commit();
      } catch (error) {
        await connection.rollback().catch(() => {}); // of a connection that is gone there is nothing left to roll back
        throw error;
      } finally {
        connection.release();
      }
    },
  };
}
