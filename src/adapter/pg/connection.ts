import type { SessionPool } from '../sql/session-pool.js';
import type { PgSession } from './session.js';

/** One PostgreSQL server, with the pool of sessions that evenkeel keeps to it. */
export type PgServer = SessionPool<PgSession>;
