export type { PgPool, PgPoolOptions, Role, StatementOptions } from './options.js';
export { BalancedPool, createPool } from './pool.js';
