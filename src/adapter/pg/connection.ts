import type { SessionPool } from '../sql/session-pool.js';
import type { Session } from './session.js';

/** One server and its sessions. */
export type PgServer = SessionPool<Session, PgServer>;
