// Imported first, because it explains what is wrong with a pg that cannot even be loaded.
import './check-version.js';

export type { PgPool, PgPoolOptions, Role, StatementOptions } from './options.js';
export { createPool, ServicePool } from './pool.js';
