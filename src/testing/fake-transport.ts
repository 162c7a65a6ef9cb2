import type { Endpoint } from '../endpoint/endpoint.js';
import type { Connection, Transport } from '../pool/transport.js';

/** How a fake transport answers a connection attempt. */
export type ConnectBehaviour = 'accept' | 'refuse' | 'hang';

/** A call on a fake connection. */
export interface FakeCall {
  /** Resolves when the call is over: because of `finish`, or because its connection was cut or ended. */
  readonly ended: Promise<'finished' | 'cut'>;
  /** Ends the call as if it had been answered. */
  finish(): void;
}

/** A connection that a test controls. Callers get this object too, as the handle of their lease. */
export class FakeConnection implements Connection<FakeConnection> {
  /** The connection's number, from 1 over the whole transport, in opening order. */
  readonly id: number;
  /** The endpoint to which the transport was asked to connect. */
  readonly endpoint: Endpoint;
  capacity: number;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly outdated: Promise<void>;
  /** How `close` of the connection was called: not at all, to finish, or to cut. */
  closing: 'no' | 'finish' | 'cut' = 'no';
  /** The error with which `ping` of the connection rejects; undefined means that `ping` succeeds. */
  pingError: Error | undefined;
  /** The functions that end each call that runs on the connection now. */
  readonly #calls = new Set<(how: 'finished' | 'cut') => void>();
  #resolveClosed!: (error: Error | undefined) => void;
  #resolveLeaving!: () => void;
  #resolveOutdated!: () => void;
  #open = true;

  constructor(id: number, endpoint: Endpoint, capacity: number) {
    this.id = id;
    this.endpoint = endpoint;
    this.capacity = capacity;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#resolveLeaving = resolve;
    });
    this.outdated = new Promise((resolve) => {
      this.#resolveOutdated = resolve;
    });
  }

  get handle(): FakeConnection {
    return this;
  }

  /** Whether neither side has ended the connection. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** Ends the connection from the other side: cleanly, or with an error. */
  end(error?: Error): void {
    if (!this.#open) return;
    this.#open = false;
    for (const endCall of this.#calls) endCall('cut');
    this.#resolveClosed(error);
  }

  /** Starts a call on the connection: `close` waits for the call, unless `close` cuts. */
  begin(): FakeCall {
    let endCall!: (how: 'finished' | 'cut') => void;
    const ended = new Promise<'finished' | 'cut'>((resolve) => {
      endCall = (how) => {
        this.#calls.delete(endCall);
        resolve(how);
        if (this.closing === 'finish' && this.#calls.size === 0) this.end();
      };
    });
    this.#calls.add(endCall);
    return { ended, finish: () => endCall('finished') };
  }

  /** Makes the other side refuse new calls on the connection. */
  leave(): void {
    this.#resolveLeaving();
  }

  /** Marks the connection as outdated, so that another connection should replace it. */
  outdate(): void {
    this.#resolveOutdated();
  }

  async ping(): Promise<void> {
    if (this.pingError !== undefined) throw this.pingError;
  }

  async close(signal?: AbortSignal): Promise<void> {
    const cutNow = (): void => {
      this.closing = 'cut';
      this.end();
    };
    if (signal?.aborted) cutNow();
    else {
      if (this.closing === 'no') this.closing = 'finish';
      if (this.#calls.size === 0) this.end();
      else signal?.addEventListener('abort', cutNow, { once: true });
    }
    await this.closed;
    signal?.removeEventListener('abort', cutNow);
  }
}

/** A transport without sockets: its connections are numbered, and each `address:port` behaves as a test says. */
export class FakeTransport implements Transport<FakeConnection> {
  /** All connections that were ever opened. */
  readonly connections: FakeConnection[] = [];
  /** The `address:port` of every connection attempt, in order. */
  readonly attempts: string[] = [];
  /** How an attempt to `address:port` is answered; `accept` by default. */
  readonly behaviour: Map<string, ConnectBehaviour> = new Map();
  /** How many calls at once each connection can carry that is opened from now on. */
  capacity: number = Number.POSITIVE_INFINITY;
  /** How many connection attempts hang now. */
  hanging = 0;

  /** The open connections to an address, or all open connections. */
  open(address?: string): FakeConnection[] {
    return this.connections.filter(
      (connection) => connection.isOpen && (address === undefined || connection.endpoint.address === address),
    );
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<FakeConnection> {
    const address = `${endpoint.address}:${endpoint.port}`;
    this.attempts.push(address);
    const behaviour = this.behaviour.get(address) ?? 'accept';
    if (behaviour === 'refuse') throw Object.assign(new Error(`refused ${address}`), { code: 'ECONNREFUSED' });
    if (behaviour === 'hang' && !signal.aborted) {
      this.hanging++;
      await new Promise<never>((_, reject) => {
        const giveUp = (): void => {
          this.hanging--;
          reject(signal.reason);
        };
        signal.addEventListener('abort', giveUp, { once: true });
      });
    }
    // A connection is never ready in the turn in which it was requested.
    await undefined;
    signal.throwIfAborted();
    const connection = new FakeConnection(this.connections.length + 1, endpoint, this.capacity);
    this.connections.push(connection);
    return connection;
  }
}
