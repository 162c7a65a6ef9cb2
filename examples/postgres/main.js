// @ts-check
/** What an application writes: a pool for writes, which finds the primary, and one for reads. `node examples/postgres/demo.js` runs it. */
import { createPool } from 'evenkeel/pg';

/** @param {import('evenkeel/pg').PgPoolOptions} options user, password and database; the target is left out in a pod */
export function openShop(options) {
  const shared = { target: 'postgres.shop:5432', ...options };
  return {
    primary: createPool({ ...shared, role: 'primary', waitTimeoutMs: 30_000 }),
    replicas: createPool({ ...shared, role: 'prefer-replica', maxLagMs: 5_000, idempotent: true }),
  };
}
