import { AsyncResource } from 'node:async_hooks';
import type { Clock, Endpoint, Rng, Transport } from '../../index.js';
import { asError, deadline, markLasting } from '../kit/index.js';
import type { SessionOwner } from '../sql/session.js';
import { SessionPool } from '../sql/session-pool.js';
import type { PgServer } from './connection.js';
import { destroySocket, dialTo, nameServer } from './internals.js';
import type { ServerSettings } from './options.js';
import { isOrderlyEnd, refusalOf } from './outcome.js';
import type { ServerRoles } from './roles.js';
import { type ClientEvents, PgSession, type SessionParts } from './session.js';

interface PgTransportParts {
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly events: ClientEvents;
  /** What follows the roles of servers; undefined if roles do not matter. */
  readonly roles: ServerRoles | undefined;
}

/** A server that has not been connected for this long is not connected anew, which may take a pause, because it ended a session. In ms. */
const YOUNG_MS = 5_000;

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
    const parts: SessionParts = { endpoint, settings, clock, events, recheckRole: () => roles?.hint(endpoint) };
    const server: PgServer = new SessionPool<PgSession, PgServer>({
      endpoint,
      clock,
      rng,
      limits: settings,
      handle: (pool) => pool,
      open: (owner, done) => openSession(parts, owner, done),
      refusalOf: (error) => {
        const refusal = refusalOf(error);
        return refusal === 'log-in' ? 'unknown' : refusal;
      },
      isOrderlyEnd,
      youngMs: YOUNG_MS,
      pingQuery: { text: 'SELECT 1' },
      queriesBesideLimit: false,
      failed: (error, { client }) => events.failed(error, client),
      warned: (error) => events.warned('a server accepted no further connection', error),
    });
    const cut = (): void => void server.close(AbortSignal.abort());
    let aborted = cut;
    try {
      await new Promise<void>((resolve, reject) => {
        aborted = () => {
          cut();
          reject(signal.reason);
        };
        signal.addEventListener('abort', aborted);
        server.open((error) => (error === undefined ? resolve() : reject(error)));
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

/** Connections outlive the call they were opened for: they must not keep its AsyncLocalStorage. */
const background = new AsyncResource('evenkeel.pg');

/**
 * Opens a connection to the pod's address, whatever the Service is called, and logs in. `done` is called once, later. Returns how
 * it is called off.
 */
function openSession(
  parts: SessionParts,
  owner: SessionOwner<PgSession>,
  done: (error: Error | undefined, session: PgSession | undefined) => void,
): () => void {
  const { endpoint, settings, clock } = parts;
  const { Client, config, host, port, connectTimeoutMs } = settings;
  return background.runInAsyncScope(() => {
    const socket = dialTo(endpoint);
    const client = new Client({ ...config, stream: socket });
    nameServer(client, host, port);
    let session: PgSession | undefined;
    let isOver = false;
    const over = (error: Error | undefined): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      if (error === undefined) done(undefined, session);
      else {
        destroySocket(client);
        socket.destroy();
        done(error, undefined);
      }
    };
    const late = (): void => callOff(new Error(`no session within ${connectTimeoutMs} ms`));
    const callOff = (error: Error): void => {
      socket.destroy(error);
      // pg reports no error if it was waiting for a function of the application.
      over(error);
    };
    const timer = deadline(clock, late, connectTimeoutMs);
    client.on('error', over);
    client.connect((error: Error | null) => {
      if (error || isOver) {
        over(error ?? new Error('called off'));
        return;
      }
      const opened = new PgSession(client, parts, owner);
      client.on('end', () => over(new Error('Connection terminated unexpectedly')));
      greet(opened, parts).then(
        () => {
          session = opened;
          over(opened.isAlive ? undefined : new Error('Connection terminated unexpectedly'));
        },
        (refusal) => {
          opened.cut(asError(refusal));
          // The application refused this client, and would refuse the next.
          over(markLasting(asError(refusal)));
        },
      );
    });
    return () => callOff(new Error('called off'));
  });
}

/** What users do with every new client before it is used. */
async function greet({ client }: PgSession, { settings, events }: SessionParts): Promise<void> {
  const { onConnect, verify } = settings;
  if (onConnect !== undefined) await onConnect(client);
  events.connected(client);
  if (verify === undefined) return;
  await new Promise<void>((resolve, reject) => {
    verify(client, (error) => (error ? reject(error) : resolve()));
  });
}
