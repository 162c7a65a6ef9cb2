import type { Pool } from 'mysql2';
import { SessionPool } from '../../sql/session-pool.js';
import { isInPool } from '../internals.js';
import { meaningOf } from '../outcome.js';
import { tell } from '../own-functions.js';
import { Opening, type ServerParts } from './opening.js';
import { type MysqlSession, PING } from './session.js';

/** One MySQL server, with the pool of sessions that evenkeel keeps to it. */
export type ServerConnection = SessionPool<MysqlSession, Pool>;

/** Creates the pool of sessions for a server. Its first session is not opened yet. */
export function serverConnection(parts: ServerParts): ServerConnection {
  const { endpoint, settings, clock, rng, events } = parts;
  const opening = new Opening(parts);
  const server: ServerConnection = new SessionPool<MysqlSession, Pool>({
    endpoint,
    clock,
    rng,
    limits: settings,
    handle: () => opening.pool,
    open: (owner, done) => opening.open(owner, done),
    refusalOf: meaningOf,
    isOrderlyEnd: (error) => error === undefined,
    youngMs: 0,
    pingQuery: PING,
    queriesBesideLimit: true,
    warned: (error) => tell(events, 'warn', error),
    ended: () => opening.close(),
  });
  opening.refreshFor(server);
  lendThrough(opening.pool, server);
  return server;
}

/** Makes the mysql2 pool itself lend sessions of the server, for users of the pool that `mysql2Transport` hands out. */
function lendThrough(pool: Pool, server: ServerConnection): void {
  const getConnection: Pool['getConnection'] = (callback) => {
    server.borrow({
      isOwn: false,
      waits: () => {},
      lent: (session) => {
        session.acquired();
        process.nextTick(callback, null, session.connection);
      },
      // Users of the pool expect mysql2's own errors.
      notLent: (error) => process.nextTick(callback, error.cause ?? error),
    });
  };
  const releaseConnection: Pool['releaseConnection'] = (connection) => {
    if (isInPool(connection)) connection.release();
  };
  Object.assign(pool, { getConnection, releaseConnection });
}
