import type { SessionPool } from '../sql/session-pool.js';
import type { PgSession } from './session.js';

/** One server and its sessions. */
export type PgServer = SessionPool<PgSession, PgServer>;
