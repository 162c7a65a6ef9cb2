import type { EventEmitter } from 'node:events';
import type { LookupFunction } from 'node:net';
import { EvenkeelError, type Lease, outcomes } from '../../index.js';
import {
  asError,
  type ChosenEndpoint,
  type Dial,
  type DialledConnection,
  onAbort,
  type SocketPlacer,
} from '../kit/index.js';
import type { BrokerUrl } from './broker-url.js';
import { socketOf } from './internals.js';

/** The part of a `Connection` of rabbitmq-client that evenkeel uses. */
export interface Client extends EventEmitter {
  close(): Promise<void>;
}

/** What can be done to an AMQP client that should leave its broker. */
export interface Leave {
  readonly move: () => void;
  /** Called instead of `move` when `Brokers` is closed, so that the client does not connect again. @defaultValue `move` */
  readonly close?: (() => void) | undefined;
  readonly movesItself?: boolean | undefined;
  readonly cut?: (() => void) | undefined;
}

interface Parts {
  readonly placer: SocketPlacer;
  readonly url: BrokerUrl;
  readonly isRefusal: (error: unknown) => boolean;
  readonly watchBlocked: (key: string) => (isBlocked: boolean) => void;
  readonly held: (client: EventEmitter, leave: Leave) => DialledConnection;
}

/**
 * The AMQP frame `connection.close` on channel 0: class 10, method 50, code 200, no text. A broker answers it and waits for the socket to
 * end.
 */
const CLOSE = Buffer.from([1, 0, 0, 0, 0, 0, 11, 0, 10, 0, 50, 0, 200, 0, 0, 0, 0, 0, 0xce]);

/** How long a broker may take to answer a `connection.close`, in ms. */
const END_MS = 100;

/** One socket of the AMQP client, from the moment it is dialed. */
interface Dialled {
  readonly cut: AbortController;
  dial: Dial | undefined;
  isClosed: boolean;
}

/**
 * A connection of rabbitmq-client, which dials synchronously and redials a lost connection with the same options. Its socket options have
 * getters, which choose a broker for each dial.
 */
export class RedialledConnection {
  readonly #parts: Parts;
  #client: Client | undefined;
  #current: Dialled | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Returns the options that the library passes to `net.connect` or `tls.connect` with each dial. */
  socketOptions(own: object | undefined): object {
    const { url } = this.#parts;
    let lookup: LookupFunction;
    let dialled: Dialled;
    const begin = (): number => {
      const next = this.#begin();
      ({ dialled, lookup } = next);
      return next.port;
    };
    return {
      ...own,
      ...url.tlsName,
      // With each dial, the library reads `port` before all other options, so this getter chooses the broker.
      get port() {
        return begin();
      },
      get lookup() {
        return lookup;
      },
      get signal() {
        return dialled.cut.signal;
      },
    };
  }

  follow(client: Client): void {
    this.#client = client;
    client.on('connection', () => this.#opened(client));
    client.on('connection.blocked', () => this.#blocked(true));
    client.on('connection.unblocked', () => this.#blocked(false));
  }

  #blocked: (isBlocked: boolean) => void = () => {};

  #begin(): { dialled: Dialled; port: number; lookup: LookupFunction } {
    const { placer, url } = this.#parts;
    const dialled: Dialled = { cut: new AbortController(), dial: undefined, isClosed: false };
    this.#current = dialled;
    // The client stores its new socket only after this getter has returned, so the socket can be watched one microtask later.
    queueMicrotask(() => this.#watch(dialled));
    const lease = placer.balancer.pick();
    if (lease !== undefined) {
      const { lookup } = url.dialOptions(this.#take(dialled, lease));
      return { dialled, port: lease.endpoint.port ?? url.port, lookup };
    }
    const lookup: LookupFunction = (host, options, callback) => {
      this.#waitForBroker(dialled).then(
        (dial) => url.dialOptions(dial).lookup(host, options, callback),
        (error) => callback(asError(error), '', 0),
      );
    };
    return { dialled, port: url.port, lookup };
  }

  /**
   * Waits for a broker. Used when no broker could be picked at the moment the library dialed: by then the library has read the port, so a
   * broker with another port is of no use.
   */
  async #waitForBroker(dialled: Dialled): Promise<Dial> {
    const { placer, url } = this.#parts;
    if (placer.isClosing) void this.#client?.close().catch(() => {});
    const lease = await placer.balancer.acquire({ signal: dialled.cut.signal });
    const { port = url.port } = lease.endpoint;
    if (dialled.isClosed || port !== url.port) {
      lease.end(outcomes.notStarted);
      throw new EvenkeelError('EVENKEEL_NOT_READY', `there was no broker yet; one is at port ${port} now`);
    }
    return this.#take(dialled, lease);
  }

  #take(dialled: Dialled, lease: Lease<ChosenEndpoint>): Dial {
    const dial = this.#parts.placer.dial(lease);
    dialled.dial = dial;
    const { signal } = dial;
    const cut = (): void => dialled.cut.abort(signal.reason);
    if (signal.aborted) cut();
    else onAbort(signal, cut);
    return dial;
  }

  #watch(dialled: Dialled): void {
    const socket = this.#client && socketOf(this.#client);
    if (socket === undefined) {
      // Node refused an option, so the library could create no socket.
      dialled.isClosed = true;
      dialled.dial?.refused(new Error('no socket was created'));
      return;
    }
    let failure: Error | undefined;
    socket.prependListener('error', (error) => {
      failure ??= error;
    });
    socket.once('close', () => {
      dialled.isClosed = true;
      dialled.cut.abort();
      if (this.#current === dialled) this.#blocked(false);
      const { dial } = dialled;
      if (dial === undefined) return;
      const error = failure ?? new Error('it closed the connection');
      if (this.#parts.isRefusal(error)) dial.refused(error);
      else dial.failed(error);
      dial.ended(failure);
    });
  }

  #opened(client: Client): void {
    const socket = socketOf(client);
    const dialled = this.#current;
    if (dialled?.dial === undefined) return;
    this.#blocked = this.#parts.watchBlocked(dialled.dial.lease.endpoint.key);
    const leave: Leave = {
      // The client has no method to leave its broker. Writing to the socket is safe, because a frame on channel 0 is valid between any two
      // frames of other channels.
      move: () => {
        socket.write(CLOSE);
        // The broker ignores what is written after `connection.close`. The socket is ended later, because ending it at once could cut off
        // that frame.
        this.#parts.placer.clock.timer(() => socket.end(), END_MS);
      },
      close: () => void client.close().catch(() => {}),
      movesItself: true,
      cut: () => dialled.cut.abort(),
    };
    dialled.dial.opened(this.#parts.held(client, leave));
  }
}
