import type { Clock, Endpoint, Rng, Transport } from '../../index.js';
import { markLasting } from '../kit/index.js';
import { type ClientEvents, PgServer } from './connection.js';
import type { ServerSettings } from './options.js';
import { refusalOf } from './outcome.js';
import type { ServerRoles } from './roles.js';

interface PgTransportParts {
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly events: ClientEvents;
  /** Undefined if roles do not matter. */
  readonly roles: ServerRoles | undefined;
}

/** Opens connections to servers, and keeps a list of open ones. A server is ready once its role is known. */
export class PgTransport implements Transport<PgServer> {
  readonly servers: Set<PgServer> = new Set();
  readonly protocol: Transport<unknown>['protocol'];
  readonly #parts: PgTransportParts;

  constructor(parts: PgTransportParts) {
    this.#parts = parts;
    const { host, port } = parts.settings;
    this.protocol = Object.freeze({
      conventions: 'db',
      attributes: Object.freeze({ 'db.system.name': 'postgresql', 'server.address': host, 'server.port': port }),
    });
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<PgServer> {
    signal.throwIfAborted();
    const { settings, clock, rng, events, roles } = this.#parts;
    const recheckRole = (): void => roles?.hint(endpoint);
    const server = new PgServer({ endpoint, settings, clock, rng, events, recheckRole });
    const cut = (): void => void server.close(AbortSignal.abort());
    let aborted = cut;
    try {
      await new Promise<void>((resolve, reject) => {
        aborted = () => {
          cut();
          reject(signal.reason);
        };
        signal.addEventListener('abort', aborted);
        server.warm((error) => (error === undefined ? resolve() : reject(error)));
      });
      await roles?.connected(server, signal);
    } catch (error) {
      cut();
      throw refusalOf(error) === 'log-in' ? markLasting(error as object) : error;
    } finally {
      signal.removeEventListener('abort', aborted);
    }
    this.servers.add(server);
    void server.closed.then(() => this.servers.delete(server));
    return server;
  }
}
