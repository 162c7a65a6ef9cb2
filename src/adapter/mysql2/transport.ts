import type { Clock, Endpoint, Rng, Transport } from '../../index.js';
import { markLasting } from '../kit/index.js';
import { SessionPool } from '../sql/session-pool.js';
import { Opening } from './open.js';
import type { ServerSettings } from './options.js';
import { isRefusedLogIn, refusalOf } from './outcome.js';
import { type Events, tell } from './own-functions.js';
import { type MysqlServer, type MysqlSession, PING } from './session.js';

/** What a `MysqlTransport` needs to connect to servers. */
export interface MysqlTransportParts {
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Emits the events `acquire`, `connection` and `release` of mysql2's pools, and `warn` for a problem that was dealt with. */
  readonly events: Events;
  /** Called when the first connection to a server is open, before the server counts as connected. If it rejects, the server does not. */
  readonly opened?: (server: MysqlServer, signal: AbortSignal) => Promise<void>;
}

/** Opens connections to MySQL servers. The first connection to a server is opened before its first statement. */
export class MysqlTransport implements Transport<MysqlServer> {
  readonly #parts: MysqlTransportParts;
  readonly #servers = new WeakSet<MysqlServer>();

  constructor(parts: MysqlTransportParts) {
    this.#parts = parts;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<MysqlServer> {
    const { opened, ...parts } = this.#parts;
    const { settings, clock, rng, events } = parts;
    const opening = new Opening({ endpoint, ...parts });
    const server: MysqlServer = new SessionPool<MysqlSession>({
      endpoint,
      clock,
      rng,
      limits: settings,
      open: (owner, done) => opening.open(owner, done),
      refusalOf,
      isOrderlyEnd: (error) => error === undefined,
      keepIfYoungerThanMs: 0,
      pingQuery: PING,
      ownQueriesMayExceedMax: true,
      warned: (error) => tell(events, 'warn', error),
      ended: () => opening.close(),
    });
    opening.refreshFor(server);
    try {
      await server.begin(signal);
      await opened?.(server, signal);
    } catch (error) {
      void server.close(AbortSignal.abort());
      throw isRefusedLogIn(error) ? markLasting(error as object) : error;
    }
    this.#servers.add(server);
    return server;
  }

  /** Whether this transport has connected to the server. */
  has(server: MysqlServer): boolean {
    return this.#servers.has(server);
  }
}
