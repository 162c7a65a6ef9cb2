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
  /** Follows the roles of the servers; undefined if the pool's options do not depend on roles. */
  readonly roles: ServerRoles | undefined;
}

/**
 * A server that ends a session in order within this time of connecting keeps its connection, because connecting anew may involve a pause.
 * In ms.
 */
const YOUNG_MS = 5_000;

/** Opens connections to PostgreSQL servers, and lists the open ones. A server is ready once its role is known. */
export class PgTransport implements Transport<PgServer> {
  readonly servers: Set<PgServer> = new Set();
  readonly #parts: PgTransportParts;

  constructor(parts: PgTransportParts) {
    this.#parts = parts;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<PgServer> {
    const { settings, clock, rng, events, roles } = this.#parts;
    const parts: SessionParts = { endpoint, settings, clock, events, recheckRole: () => roles?.hint(endpoint) };
    const server: PgServer = new SessionPool<PgSession>({
      endpoint,
      clock,
      rng,
      limits: settings,
      open: (owner, done) => openSession(parts, owner, done),
      refusalOf: (error) => {
        const refusal = refusalOf(error);
        return refusal === 'log-in' ? 'unknown' : refusal;
      },
      isOrderlyEnd,
      keepIfYoungerThanMs: YOUNG_MS,
      pingQuery: { text: 'SELECT 1' },
      ownQueriesMayExceedMax: false,
      failed: (error, { client }) => events.failed(error, client),
      warned: (error) => events.warned('a server accepted no further connection', error),
      emptied: () => roles?.forget(server),
    });
    try {
      await server.begin(signal);
      await roles?.connected(server, signal);
    } catch (error) {
      void server.close(AbortSignal.abort());
      throw refusalOf(error) === 'log-in' ? markLasting(error as object) : error;
    }
    this.servers.add(server);
    void server.closed.then(() => this.servers.delete(server));
    return server;
  }
}

/**
 * The async context in which connections are opened. A connection outlives the call it was opened for, so it must not keep that call's
 * AsyncLocalStorage.
 */
const background = new AsyncResource('evenkeel.pg');

/** Opens a connection to the pod's own address and logs in. `done` is called once, later. Returns a function that calls the attempt off. */
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
    const finish = (error: Error | undefined): void => {
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
      // pg reports no error if the connection ends while it waits for a function of the application, such as one for the password.
      finish(error);
    };
    const timer = deadline(clock, late, connectTimeoutMs);
    client.on('error', finish);
    client.connect((error: Error | null) => {
      if (error || isOver) {
        finish(error ?? new Error('called off'));
        return;
      }
      const opened = new PgSession(client, parts, owner);
      client.on('end', () => finish(new Error('Connection terminated unexpectedly')));
      greet(opened, parts).then(
        () => {
          session = opened;
          finish(opened.isAlive ? undefined : new Error('Connection terminated unexpectedly'));
        },
        (refusal) => {
          opened.cut(asError(refusal));
          // A check of the application refused this client, and would refuse the next one too.
          finish(markLasting(asError(refusal)));
        },
      );
    });
    return () => callOff(new Error('called off'));
  });
}

/** Runs the application's functions for new clients (`onConnect`, `verify`) before a client is used. */
async function greet({ client }: PgSession, { settings, events }: SessionParts): Promise<void> {
  const { onConnect, verify } = settings;
  if (onConnect !== undefined) await onConnect(client);
  events.connected(client);
  if (verify === undefined) return;
  await new Promise<void>((resolve, reject) => {
    verify(client, (error) => (error ? reject(error) : resolve()));
  });
}
