import { type Connection, type Endpoint, EvenkeelError } from '../../index.js';
import { ConnectionGroup, ReportAsking } from '../kit/index.js';
import { Http2Connection, type Http2Context } from './http2-connection.js';
import type { ResolvedGrpcOptions } from './options.js';
import { checkHealth } from './server-reports.js';

/** What the pods of one channel share. */
export interface PodContext extends Http2Context {
  readonly options: ResolvedGrpcOptions;
}

/** One pod as a channel uses it: one connection, or several if the option `connections` says so. */
export class PodConnection implements Connection<PodConnection> {
  /** Settles when the pod's first connection is ready; rejects if that cannot be opened. */
  readonly opened: Promise<PodConnection>;
  /** Decides which calls ask the pod's server for a load report. */
  readonly reportAsking: ReportAsking = new ReportAsking();
  readonly #connections: ConnectionGroup<Http2Connection>;
  readonly #healthService: string;

  constructor(endpoint: Endpoint, context: PodContext) {
    const { connections, clock, rng, healthService } = context.options;
    this.#healthService = healthService;
    this.#connections = new ConnectionGroup<Http2Connection>({
      open: (events) => new Http2Connection(endpoint, context, events),
      connections,
      neverOpened: (reason) => new EvenkeelError('EVENKEEL_CONNECT', reason),
      clock,
      rng,
    });
    this.opened = this.#connections.opened.then(() => this);
  }

  get handle(): PodConnection {
    return this;
  }

  get capacity(): number {
    return this.#connections.capacity;
  }

  get sockets(): number {
    return this.#connections.size;
  }

  get leaving(): Promise<void> {
    return this.#connections.leaving;
  }

  get closed(): Promise<undefined> {
    return this.#connections.closed;
  }

  watchCapacity(changed: () => void): void {
    this.#connections.watchCapacity(changed);
  }

  /** The connection for the next call, as `ConnectionGroup.next` chooses it. */
  next(): Http2Connection | undefined {
    return this.#connections.next();
  }

  callStarted(connection: Http2Connection): void {
    this.#connections.callStarted(connection);
  }

  callEnded(connection: Http2Connection): void {
    this.#connections.callEnded(connection);
  }

  /** Checks the pod's health by grpc.health.v1, over a connection that calls use. */
  async ping(signal: AbortSignal): Promise<void> {
    const connection = this.next();
    if (connection === undefined) throw new Error('the connection was just lost');
    await checkHealth(connection, this.#healthService, signal);
  }

  /** Gives the pod's connections up. Running calls finish; only their servers and deadlines can cut them. */
  close(signal?: AbortSignal): Promise<void> {
    return this.#connections.close(signal);
  }

  /** Releases every connection to the pod immediately. */
  release(reason: string): void {
    this.#connections.release(reason);
  }
}
