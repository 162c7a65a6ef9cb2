import type { Mysql2ConnectionOptions } from '../../../../src/adapter/mysql2/options.js';
import { serverSettings } from '../../../../src/adapter/mysql2/options.js';
import type { MysqlServer } from '../../../../src/adapter/mysql2/session.js';
import { MysqlTransport } from '../../../../src/adapter/mysql2/transport.js';
import { type Clock, type PoolOptions, type Rng, systemClock, systemRng } from '../../../../src/index.js';

export type { MysqlServer };

/** The transport of a cluster, without the cluster. */
export function transport({
  clock = systemClock,
  rng = systemRng,
  ...options
}: Mysql2ConnectionOptions & {
  readonly pool?: PoolOptions;
  readonly clock?: Clock;
  readonly rng?: Rng;
}): MysqlTransport {
  return new MysqlTransport({ settings: serverSettings(options, undefined), clock, rng, events: {} });
}

/** Runs a statement on a session of a server, as a call does, and resolves with the rows. */
export function ask(server: MysqlServer, sql: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    server.borrow({
      isOwn: false,
      waits: () => {},
      notLent: (error) => reject(error.cause ?? error),
      lent: (session) => {
        session.acquired();
        session.send('query', sql, undefined, (error, rows) => {
          session.release();
          if (error) reject(error);
          else resolve(rows);
        });
      },
    });
  });
}
