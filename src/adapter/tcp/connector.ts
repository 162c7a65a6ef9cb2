import type { Socket } from 'node:net';
import type { Balancer } from '../../index.js';
import { asError, optionError, ownProperties, SocketPlacer } from '../kit/index.js';
import { ConnectingSocket } from './connecting-socket.js';
import { type ConnectOptions, type Connector, type ConnectorOptions, connectorTable } from './options.js';

/**
 * Creates a connector to the pods of a Service, for any protocol over TCP or TLS. Must be closed.
 *
 * @param target Such as `broker.shop:5672`.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example
 * const broker = createConnector('broker.shop:5672');
 * const socket = await broker.connect();
 */
export function createConnector(target: string, options: ConnectorOptions = {}): Connector {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const { finish, ...rest } = ownProperties(options);
  return new ServiceConnector(new SocketPlacer(target, rest), connectorTable.resolveOwn({ finish }).finish);
}

class ServiceConnector implements Connector {
  readonly balancer: Balancer<unknown>;
  readonly #placer: SocketPlacer;
  readonly #finish: ConnectorOptions['finish'];

  constructor(placer: SocketPlacer, finish: ConnectorOptions['finish']) {
    this.#placer = placer;
    this.#finish = finish;
    this.balancer = placer.balancer;
    // Libraries call `createConnection` without `this`, so the method is bound.
    this.createConnection = this.createConnection.bind(this);
  }

  connect(options: ConnectOptions = {}): Promise<Socket> {
    const finish = this.#finish;
    // `SocketPlacer.connect` refuses options that are not an object.
    const isUsual =
      finish === undefined ||
      typeof options !== 'object' ||
      options === null ||
      ownProperties(options).finish !== undefined;
    return this.#placer.connect(isUsual ? options : { ...options, finish });
  }

  createConnection(_options?: unknown, callback?: (error: Error | null, socket?: Socket) => void): Socket {
    if (typeof callback === 'function') {
      this.connect().then(
        (socket) => callback(null, socket),
        (error) => callback(asError(error)),
      );
      // Nothing is returned, because an `http.Agent` would take a returned value for the socket.
      return undefined as never;
    }
    return new ConnectingSocket((signal) => this.connect({ signal }), this.#placer.clock) as unknown as Socket;
  }

  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void> {
    return this.#placer.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
