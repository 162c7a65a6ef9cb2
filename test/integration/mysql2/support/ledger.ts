import type { PoolCluster } from 'evenkeel/mysql2';
import type { ResultSetHeader, RowDataPacket } from 'mysql2';
import type { Mariadb } from '../../../support/databases/mariadb.js';

const ACCOUNTS = 20;
const OPENING = 1_000;

/** What a server needs for it. */
export const ledgerTables: readonly string[] = [
  'CREATE TABLE IF NOT EXISTS accounts (id INT PRIMARY KEY, balance INT NOT NULL)',
  'CREATE TABLE IF NOT EXISTS transfers (id BIGINT PRIMARY KEY)',
  `INSERT IGNORE INTO accounts SELECT seq, ${OPENING} FROM seq_1_to_${ACCOUNTS}`,
];

/**
 * Workers that move money between accounts, each time in a transaction of several statements on one connection, and note
 * it in the same transaction. Money that appears or is lost, or a transfer that was acknowledged and is not there, is a
 * transaction that was torn.
 */
export class Ledger {
  /** Transfers that were acknowledged, by `@@server_id`. */
  readonly acknowledged: Map<number, number[]> = new Map();
  readonly errors: Error[] = [];
  /** Transfers whose statements were not all run by one session. */
  moved = 0;
  #stopped = false;
  readonly #work: Promise<unknown>;
  #next = 1;

  constructor(cluster: Pick<PoolCluster, 'getConnection'>, workers: number) {
    const transfer = async (): Promise<void> => {
      while (!this.#stopped) {
        try {
          await this.#transfer(cluster);
        } catch (error) {
          this.errors.push(error as Error);
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    this.#work = Promise.all(Array.from({ length: workers }, transfer));
  }

  get total(): number {
    return [...this.acknowledged.values()].reduce((sum, ids) => sum + ids.length, 0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#work;
  }

  /** Looks into a server's books. */
  async audit(server: Mariadb): Promise<{ readonly sum: number; readonly missing: number; readonly noted: number }> {
    const [{ sum }] = await server.sql('SELECT CAST(SUM(balance) AS INT) AS sum FROM shop.accounts');
    const rows = (await server.sql('SELECT id FROM shop.transfers')) as { id: number }[];
    const noted = new Set(rows.map(({ id }) => id));
    const missing = (this.acknowledged.get(server.id) ?? []).filter((id) => !noted.has(id)).length;
    return { sum: Number(sum), missing, noted: noted.size };
  }

  async #transfer(cluster: Pick<PoolCluster, 'getConnection'>): Promise<void> {
    const id = this.#next++;
    // Always from the lower to the higher: two transfers never wait for each other.
    const from = 1 + (id % (ACCOUNTS - 1));
    const connection = await cluster.getConnection();
    let done = false;
    try {
      await connection.beginTransaction();
      const [before] = await connection.query<RowDataPacket[]>('SELECT CONNECTION_ID() AS id, @@server_id AS server');
      await connection.execute<ResultSetHeader>('UPDATE accounts SET balance = balance - 1 WHERE id = ?', [from]);
      await connection.execute('INSERT INTO transfers VALUES (?)', [id]);
      await connection.execute('UPDATE accounts SET balance = balance + 1 WHERE id = ?', [from + 1]);
      const [after] = await connection.query<RowDataPacket[]>('SELECT CONNECTION_ID() AS id, @@server_id AS server');
      if (before[0]?.id !== after[0]?.id || before[0]?.server !== after[0]?.server) this.moved++;
      await connection.commit();
      done = true;
      const { server } = after[0] as unknown as { server: number };
      const ids = this.acknowledged.get(server) ?? [];
      ids.push(id);
      this.acknowledged.set(server, ids);
    } finally {
      if (done) connection.release();
      else connection.destroy();
    }
  }
}

export const LEDGER_SUM: number = ACCOUNTS * OPENING;
