import type { PgPool } from 'evenkeel/pg';
import { Readers } from '../../../support/readers.js';
import { PROOF } from '../../mysql2/support/traffic.js';

export { maxOverMean, PROOF, report } from '../../mysql2/support/traffic.js';

/** Elsewhere than in a proof all writers have a statement running at any moment, too, and leave the machine to others. */
const INSERT = PROOF
  ? 'INSERT INTO ledger (id) VALUES ($1)'
  : 'INSERT INTO ledger (id) SELECT $1::int FROM pg_sleep(0.02)';

/** Readers by port. */
export function readers(pool: Pick<PgPool, 'query'>, workers: number, total?: number): Readers {
  const read = async (): Promise<number> => (await pool.query('SELECT inet_server_port() AS port')).rows[0].port;
  return new Readers(read, workers, total);
}

/** Workers that note one number after another, each in a statement of its own that may run once only. */
export class Writers {
  /** Numbers whose INSERT was acknowledged. */
  readonly acknowledged: number[] = [];
  readonly errors: (Error & { readonly code?: string })[] = [];
  /** When each was acknowledged. */
  readonly atMs: number[] = [];
  #stopped = false;
  #next: number;
  readonly #work: Promise<unknown>;

  constructor(pool: Pick<PgPool, 'query'>, workers: number, first = 1) {
    this.#next = first;
    const write = async (): Promise<void> => {
      while (!this.#stopped) {
        const id = this.#next++;
        try {
          await pool.query(INSERT, [id]);
          this.acknowledged.push(id);
          this.atMs.push(performance.now());
        } catch (error) {
          this.errors.push(error as Error);
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    this.#work = Promise.all(Array.from({ length: workers }, write));
  }

  /** How long after a moment the first was acknowledged, in ms. */
  firstAfter(sinceMs: number): number {
    return Math.round((this.atMs.find((atMs) => atMs > sinceMs) ?? Number.POSITIVE_INFINITY) - sinceMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#work;
  }
}

/** Without a key, so that a row that was written twice shows. */
export const ledgerTable = 'CREATE TABLE ledger (id int NOT NULL)';
