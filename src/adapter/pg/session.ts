import { AsyncResource } from 'node:async_hooks';
import { Socket } from 'node:net';
import type { PoolClient } from 'pg';
import { type Clock, type Endpoint, type Outcome, outcomes } from '../../index.js';
import { asError, markLasting } from '../kit/index.js';
import type { ServerSettings } from './options.js';
import { READ_ONLY } from './outcome.js';

/** What a session tells its server. */
export interface SessionOwner {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  /** It can be lent again. */
  freed(session: Session): void;
  /** It is gone. Called once. @param byApplication That says nothing about the server. */
  lost(session: Session, error: Error | undefined, byApplication: boolean): void;
  /** Its connection is closed. */
  removed(session: Session): void;
  /** The server's answer suggests that its role has changed. */
  recheckRole(): void;
}

/** What pg keeps of a client, beyond its types. */
interface ClientInternals {
  readonly connection: {
    readonly stream: Socket;
    on(event: string, heard: (message: never) => void): void;
    prependListener(event: string, heard: (message: never) => void): void;
  };
  readonly readyForQuery?: boolean;
  readonly _ending?: boolean;
  readonly _queryable?: boolean;
  readonly _sentQueryQueue?: readonly unknown[];
  host: string;
  port: number;
  readonly connectionParameters: { host: string; port: number };
  ref(): void;
  unref(): void;
}

/** The answer to a statement, as pg gives it to callbacks. */
export type Answer = (error: Error | null | undefined, result?: unknown) => void;

const internalsOf = (client: PoolClient): ClientInternals => client as unknown as ClientInternals;

/** Connections outlive the call they were opened for: they must not keep its AsyncLocalStorage. */
const background = new AsyncResource('evenkeel.pg');

/** One connection to a server: a client of pg's. Lent to one call at a time. */
export class Session {
  readonly client: PoolClient;
  /** When it was last given back, on the clock. */
  idleSinceMs = 0;
  /** How often it was lent. */
  uses = 0;
  expiresAtMs: number = Number.POSITIVE_INFINITY;
  isIdle = false;
  readonly #owner: SessionOwner;
  #isAlive = true;
  /** The state of its transaction: I = none. */
  #transaction = 'I';
  /** It was given back while something still runs on it: to be called when that has ended. */
  #settled: (() => void) | undefined;
  #endedByApplication = false;

  constructor(client: PoolClient, owner: SessionOwner) {
    this.client = client;
    this.#owner = owner;
    const { connection } = internalsOf(client);
    client.on('error', (error: Error) => this.#ended(error));
    client.once('end', () => {
      this.#ended(undefined);
      owner.removed(this);
    });
    // Before pg's own listener, which tells the caller.
    connection.prependListener('readyForQuery', ({ status }: { readonly status: string }) => {
      this.#transaction = status;
      if (this.#settled !== undefined) owner.clock.defer(() => this.#settle());
    });
    connection.on('errorMessage', ({ code }: { readonly code?: unknown }) => {
      if (code === READ_ONLY) owner.recheckRole();
    });
    connection.on('parameterStatus', ({ parameterName: name }: { readonly parameterName: string }) => {
      if (name === 'in_hot_standby' || name === 'default_transaction_read_only') owner.recheckRole();
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Keeps the process alive, while a call uses it. */
  ref(): void {
    internalsOf(this.client).ref();
  }

  unref(): void {
    internalsOf(this.client).unref();
  }

  /** Sends a statement. `answer` is called once, later. Throws as pg does; then nothing was sent. */
  run(text: unknown, values: unknown, answer: Answer): void {
    let isOver = false;
    // pg calls back twice if a value cannot be sent.
    const once = (error: Error, result: unknown): void => {
      if (isOver) return;
      isOver = true;
      answer(error, result);
    };
    // Older ones find the callback of a query object in second place only.
    if (values === undefined) void this.client.query(text as string, once);
    else this.client.query(text as string, values as unknown[], once);
  }

  /** Sends a query object, which reads its answer by itself. `over` is called when the connection is free, or gone. */
  submit(query: object, over: () => void): void {
    const { client } = this;
    const ended = (): void => {
      client.removeListener('drain', ended);
      client.removeListener('end', ended);
      over();
    };
    client.query(query as never);
    client.once('drain', ended);
    client.once('end', ended);
  }

  /** Hands the client out. `ended`: it is free, or gone. */
  checkOut(released: (error: unknown, client: PoolClient) => void, ended: (outcome: Outcome) => void): PoolClient {
    const { client } = this;
    let isReleased = false;
    client.release = (error?: unknown): void => {
      if (isReleased) throw new Error('Release called on client which has already been released to the pool.');
      isReleased = true;
      try {
        released(error, client);
      } finally {
        this.release(() => ended(outcomes.success), error);
      }
    };
    return client;
  }

  /**
   * The caller does not need it any longer. `free` is called when nothing runs on it any more, at once if nothing does.
   * @param error Whatever is truthy ends the connection.
   */
  release(free: () => void, error?: unknown): void {
    this.#settled = free;
    if (error) this.quit();
    this.#settle();
  }

  /** Ends the connection after what runs. */
  quit(): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = true;
    // `end` would wait for a running statement, or for a server that does not answer.
    if (this.isReady) this.client.end(() => {});
    else this.#destroy();
    this.#ended(undefined);
  }

  /** Ends the connection now. */
  kill(error: Error, byApplication = false): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = byApplication;
    this.#destroy();
    this.#ended(error);
  }

  /** Whether nothing runs on it. */
  get isReady(): boolean {
    const { readyForQuery, _sentQueryQueue: sent } = internalsOf(this.client);
    return readyForQuery === true && (sent === undefined || sent.length === 0);
  }

  #settle(): void {
    const free = this.#settled;
    if (free === undefined) return;
    // The application may have ended it.
    const { _ending: isEnding, _queryable: isQueryable } = internalsOf(this.client);
    if (isEnding === true || isQueryable === false) this.kill(new Error('the client was ended'), true);
    if (this.#isAlive && !this.isReady) return;
    if (this.#settled === undefined) return;
    this.#settled = undefined;
    // The next caller must not find itself in a transaction somebody else began.
    if (this.#isAlive && this.#transaction !== 'I') this.quit();
    if (this.#isAlive) {
      this.uses++;
      this.#owner.freed(this);
    }
    free();
  }

  #destroy(): void {
    internalsOf(this.client).connection.stream.destroy();
  }

  #ended(error: Error | undefined): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    if (error !== undefined) this.#destroy();
    this.#owner.lost(this, error, this.#endedByApplication);
    this.#settle();
  }
}

/**
 * Opens a connection to the pod's address, whatever the Service is called, and logs in. `done` is called once, later. Returns how
 * it is called off.
 */
export function openSession(
  owner: SessionOwner,
  connected: (client: PoolClient) => void,
  done: (error: Error | undefined, session: Session | undefined) => void,
): () => void {
  const { endpoint, settings, clock } = owner;
  const { Client, config, host, port, connectTimeoutMs } = settings;
  return background.runInAsyncScope(() => {
    const socket = dialTo(endpoint);
    const client = new Client({ ...config, stream: socket });
    // The connection string may have told pg something else. TLS and functions for the password get the Service's name.
    Object.assign(client, { host, port });
    Object.assign(internalsOf(client).connectionParameters, { host, port });
    let session: Session | undefined;
    let isOver = false;
    const over = (error: Error | undefined): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      if (error === undefined) done(undefined, session);
      else {
        internalsOf(client).connection.stream.destroy();
        socket.destroy();
        done(error, undefined);
      }
    };
    const late = (): void => callOff(new Error(`no session within ${connectTimeoutMs} ms`));
    const callOff = (error: Error): void => {
      socket.destroy(error);
      // pg reports nothing if it was waiting for a function of the application.
      over(error);
    };
    const timer = clock.timer(late, connectTimeoutMs);
    client.on('error', over);
    client.connect((error: Error | null) => {
      if (error || isOver) {
        over(error ?? new Error('called off'));
        return;
      }
      const opened = new Session(client, owner);
      client.on('end', () => over(new Error('Connection terminated unexpectedly')));
      greet(opened, settings, connected).then(
        () => {
          session = opened;
          over(opened.isAlive ? undefined : new Error('Connection terminated unexpectedly'));
        },
        (refusal) => {
          opened.kill(asError(refusal), true);
          // The application refused it, and would refuse the next.
          over(markLasting(asError(refusal)));
        },
      );
    });
    return () => callOff(new Error('called off'));
  });
}

/** What users do with every new client before it is used. */
async function greet(
  { client }: Session,
  { onConnect, verify }: ServerSettings,
  connected: (client: PoolClient) => void,
): Promise<void> {
  if (onConnect !== undefined) await onConnect(client);
  connected(client);
  if (verify === undefined) return;
  await new Promise<void>((resolve, reject) => {
    verify(client, (error) => (error ? reject(error) : resolve()));
  });
}

/** A socket that connects to the pod, no matter which host it is told to connect to. It does not keep the process alive. */
function dialTo({ address: host, port }: Endpoint): Socket {
  const socket = new Socket();
  const connect = socket.connect.bind(socket);
  socket.connect = (() => {
    connect({ host, port });
    return socket.unref();
  }) as unknown as Socket['connect'];
  return socket;
}
