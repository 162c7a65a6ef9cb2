import { roundRobin } from 'evenkeel';
import { createPool, type PgPool, type PgPoolOptions, ServicePool } from 'evenkeel/pg';
import type { Pool, PoolClient, QueryResult } from 'pg';

const options: PgPoolOptions = {
  target: 'postgres-read.shop:5432',
  role: 'prefer-replica',
  maxLagMs: 5_000,
  user: 'shop',
  password: async () => 'secret',
  ssl: { ca: 'PEM' },
  picker: roundRobin(),
};
const replicas: PgPool = createPool(options);
// It is a pool of pg, wherever one is asked for.
const pool: Pool = replicas;
const client: Promise<PoolClient> = pool.connect();
const rows: Promise<QueryResult<{ price: number }>> = replicas.query<{ price: number }>({
  text: 'SELECT price FROM items WHERE id = $1',
  values: [7],
  idempotent: true,
  key: 'item 7',
});
replicas.query('SELECT 1', (error, result) => void [error, result.rows]);
replicas.on('error', (error) => void error.message);
void [client, rows, replicas.totalCount, replicas.balancer.snapshot(), replicas[Symbol.asyncDispose]];
class MyPool extends ServicePool {}
void new MyPool(options).end();

// @ts-expect-error: a role that does not exist
createPool({ role: 'standby' });
// @ts-expect-error: an option that does not exist
createPool({ tarqet: 'postgres.shop:5432' });
// @ts-expect-error: the sockets are ours
createPool({ stream: () => undefined });
