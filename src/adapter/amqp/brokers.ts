import type { EventEmitter } from 'node:events';
import type { Balancer } from '../../index.js';
import {
  asError,
  balancingTable,
  checkFunction,
  checkKeys,
  checkTlsOptions,
  type Dial,
  type DialledConnection,
  optionError,
  ownProperties,
  placingTable,
  SocketPlacer,
} from '../kit/index.js';
import { BlockedBrokers } from './blocked-brokers.js';
import { BrokerUrl, isRefusal } from './broker-url.js';
import { awaitsAnswer, confirmations, isModel, isRabbitmqConnection, rawConnection } from './internals.js';
import {
  type Brokers,
  type BrokersOptions,
  type ConnectOptions,
  checkObject,
  connectTable,
  RECONNECT_SECONDS,
  RETRY_LOW_MS,
  refuse,
} from './options.js';
import { type Client, type Leave, RedialledConnection } from './redialled-connection.js';

/**
 * Opens connections to the brokers behind a Service (AMQP 0-9-1), with the library you pass in. Must be closed.
 *
 * @param url As for the library: `amqp://user:password@rabbit.shop:5672/vhost`, or `amqps:`.
 * @throws EVENKEEL_OPTION for an invalid URL or option.
 * @example
 * import { connect } from 'amqp-connection-manager';
 * const brokers = createBrokers('amqp://rabbit.shop:5672');
 * const manager = brokers.connectManager(connect);
 */
export function createBrokers(url: string, options: BrokersOptions = {}): Brokers {
  return new ServiceBrokers(new BrokerUrl(url), options);
}

type AmqplibConnect<C> = (url: string, socketOptions?: object) => PromiseLike<C>;

/** The part of an amqplib connection that evenkeel uses. */
interface Model extends EventEmitter {
  close(): Promise<void>;
}

/** The part of an amqp-connection-manager that evenkeel uses. */
interface Manager extends EventEmitter {
  readonly connection: Model | undefined;
  reconnect(): void;
  close: () => Promise<void>;
}

/** How long a manager that should leave its broker waits for confirmations of its published messages, in ms. */
const CONFIRM_MS = 1_000;
/** How often a manager's channels are checked for commands without an answer, in ms. */
const ANSWER_MS = 5;
/** How long a manager may take to give up a closed connection, in ms. */
const DROP_MS = 100;

class ServiceBrokers implements Brokers {
  readonly balancer: Balancer<unknown>;
  readonly #placer: SocketPlacer;
  readonly #url: BrokerUrl;
  readonly #blocked = new BlockedBrokers();
  readonly #onLeaving: BrokersOptions['onLeaving'];

  constructor(url: BrokerUrl, options: BrokersOptions) {
    checkObject('options', options);
    const { onLeaving, stages = [], ...rest } = ownProperties(options);
    if (onLeaving !== undefined) checkFunction('onLeaving', onLeaving);
    // The placer would accept a `tls` option, but with AMQP the library does TLS itself.
    checkKeys('options', rest, [...balancingTable.names, ...placingTable.names]);
    const all = Array.isArray(stages) ? [this.#blocked.stage, ...stages] : stages;
    this.#url = url;
    this.#onLeaving = onLeaving;
    this.#placer = new SocketPlacer(url.target, { ...rest, stages: all });
    this.balancer = this.#placer.balancer;
  }

  async connect<C extends object>(connect: AmqplibConnect<C>, options: ConnectOptions = {}): Promise<C> {
    checkFunction('connect', connect);
    const { socketOptions, signal, key } = connectTable.resolve(options);
    if ('recovery' in socketOptions && socketOptions.recovery) {
      throw optionError('socketOptions.recovery', 'left out: it dials the same broker again', socketOptions.recovery);
    }
    return this.#placer.place<C>(
      {
        open: (dial) => this.#dialModel(dial, connect, socketOptions),
        opened: (connection, dial) => {
          const model = connection as unknown as Model;
          this.#follow(dial, rawConnection(model), (error) => dial.ended(error));
          return this.#held(model, { move: () => void model.close().catch(() => {}) });
        },
        isFinal: isRefusal,
      },
      { signal, key },
    );
  }

  connectManager<M extends object, O extends object>(
    connect: (urls: undefined, options?: O) => M,
    options?: Omit<O, 'findServers'>,
  ): M {
    checkFunction('connect', connect);
    const connectOptions: object & { readonly connectionOptions?: object } = ownProperties(options ?? {});
    checkObject('options', connectOptions);
    const { connectionOptions: own = {} } = connectOptions;
    const socketOptions = checkTlsOptions('options.connectionOptions', own);
    refuse(connectOptions, ['findServers']);
    let dial: Dial | undefined;
    const closing = new AbortController();
    const findServers = async (): Promise<unknown> => {
      if (this.#placer.isClosing) void manager.close().catch(() => {});
      dial = undefined;
      try {
        dial = this.#placer.dial(await this.#placer.balancer.acquire({ signal: closing.signal }));
      } catch (error) {
        // If choosing a broker failed, the manager would dial its previous broker again without asking for a new one.
        return { url: this.#url.withPort(undefined), connectionOptions: this.#url.noDialOptions(asError(error)) };
      }
      const connectionOptions = { ...socketOptions, ...this.#url.dialOptions(dial) };
      return { url: this.#url.withPort(dial.lease.endpoint.port), connectionOptions };
    };
    const all = { reconnectTimeInSeconds: RECONNECT_SECONDS, ...connectOptions, findServers };
    const manager = connect(undefined, all as unknown as O) as unknown as Manager;
    if (typeof manager?.reconnect !== 'function') {
      // It may have asked for a broker already.
      closing.abort(new Error('it is no manager'));
      discard(manager);
      throw optionError('connect', 'connect of amqp-connection-manager', connect);
    }
    const closeManager = manager.close;
    // When the manager is closed it waits for `findServers`, so a `findServers` that waits for a broker has to be aborted.
    manager.close = () => {
      closing.abort(new Error('the manager is closed'));
      return closeManager.call(manager);
    };
    manager.on('connectFailed', ({ err }: { readonly err: unknown }) => {
      if (isRefusal(err)) dial?.refused(err);
      else dial?.failed(err);
    });
    const close = (): void => void manager.close().catch(() => {});
    const held = this.#held(manager, { move: () => void this.#move(manager), close, movesItself: true });
    manager.on('connect', ({ connection }: { readonly connection: Model }) => {
      const opened = dial;
      if (opened === undefined) return;
      this.#follow(opened, rawConnection(connection), (error) => {
        opened.ended(error);
        this.#release(manager, connection);
      });
      opened.opened(held);
    });
    return manager as unknown as M;
  }

  createConnection<C extends object, O extends object>(
    Connection: new (options?: string | O) => C,
    options?: Omit<O, 'url' | 'hosts' | 'hostname' | 'port'>,
  ): C {
    checkFunction('Connection', Connection);
    const {
      socket,
      ...connectionOptions
    }: object & { readonly socket?: object; username?: string; password?: string } = ownProperties(options ?? {});
    checkObject('options', connectionOptions);
    if (socket !== undefined) checkTlsOptions('options.socket', socket);
    refuse(connectionOptions, ['url', 'hosts', 'hostname', 'port']);
    const redialled = new RedialledConnection({
      placer: this.#placer,
      url: this.#url,
      isRefusal,
      watchBlocked: (key) => this.#blocked.watch(key),
      held: (client, leave) => this.#held(client, leave),
    });
    const { username = 'guest', password = 'guest' } = ownProperties(connectionOptions);
    const ours = { url: this.#url.withUser(username, password), socket: redialled.socketOptions(socket) };
    const connection = new Connection({ retryLow: RETRY_LOW_MS, ...connectionOptions, ...ours } as unknown as O);
    if (!isRabbitmqConnection(connection)) {
      discard(connection);
      throw optionError('Connection', 'Connection of rabbitmq-client 5', Connection);
    }
    redialled.follow(connection as unknown as Client);
    return connection;
  }

  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void> {
    return this.#placer.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #dialModel<C extends object>(dial: Dial, connect: AmqplibConnect<C>, socketOptions: object): Promise<C> {
    const { lease, signal } = dial;
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      const options = { ...socketOptions, ...this.#url.dialOptions(dial) };
      const connecting = connect(this.#url.withPort(lease.endpoint.port), options);
      if (typeof connecting?.then !== 'function') {
        throw optionError('connect', 'a function that returns a promise, as connect of amqplib', connect);
      }
      connecting.then((connection) => {
        if (!isModel(connection)) {
          discard(connection);
          reject(optionError('connect', 'a function that resolves to a connection of amqplib', connection));
        }
        // This dial was aborted, so the caller never sees the connection and cannot listen for its errors.
        else if (signal.aborted) (connection as unknown as Model).on('error', () => {});
        else resolve(connection);
      }, reject);
    });
  }

  #follow({ lease }: Dial, raw: EventEmitter, ended: (error?: Error) => void): void {
    const blocked = this.#blocked.watch(lease.endpoint.key);
    raw.on('blocked', () => blocked(true));
    raw.on('unblocked', () => blocked(false));
    raw.once('close', (error?: Error) => {
      blocked(false);
      ended(error);
    });
  }

  /**
   * Moves a manager to another broker. Its channels are disconnected before its connection closes: then they publish messages without
   * confirmation again over the next connection. Otherwise they would reject them.
   */
  async #move(manager: Manager): Promise<void> {
    const { connection } = manager;
    if (connection === undefined) return;
    await this.#answered(connection);
    if (manager.connection !== connection) return;
    manager.emit('disconnect', { err: new Error('it moves to another broker') });
    await this.#confirmed(connection);
    if (manager.connection !== connection) return;
    attempt(() => manager.reconnect());
    // The manager has removed all listeners from its old connection, and an error of it without a listener would end the process.
    connection.on('error', () => {});
  }

  /** Waits until all channels of an amqplib connection have the answers to their commands, for at most `CONFIRM_MS`. */
  async #answered(connection: Model): Promise<void> {
    for (let leftMs = CONFIRM_MS; leftMs > 0 && awaitsAnswer(connection); leftMs -= ANSWER_MS) {
      await new Promise<void>((resolve) => void this.#placer.clock.timer(resolve, ANSWER_MS));
    }
  }

  /** Waits until the published messages in flight are confirmed, so that they need not be sent again, for at most `CONFIRM_MS`. */
  async #confirmed(connection: Model): Promise<void> {
    const waiting = confirmations(connection);
    if (waiting.length === 0) return;
    await new Promise<void>((resolve) => {
      const timer = this.#placer.clock.timer(resolve, CONFIRM_MS);
      void Promise.allSettled(waiting).then(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  /**
   * Makes a manager give up a connection that has ended. A manager whose connection is cut while it reconnects waits forever for that
   * connection to close; a second `reconnect` makes it go on.
   */
  #release(manager: Manager, connection: Model): void {
    this.#placer.clock.timer(() => {
      if (manager.connection === connection) attempt(() => manager.reconnect());
    }, DROP_MS);
  }

  /** How an AMQP client leaves its broker: the client emits `leaving`, and later moves to another broker. */
  #held(client: EventEmitter, { move, close = move, movesItself = false, cut }: Leave): DialledConnection {
    const onLeaving = this.#onLeaving;
    return {
      leave: (leaving) => {
        onLeaving?.(leaving, client);
        return client.emit('leaving', leaving) || onLeaving !== undefined;
      },
      finish: () => (this.#placer.isClosing ? close() : move()),
      movesItself,
      cut,
    };
  }
}

/** Ends a refused client, such as one of another version: it would go on dialing, and an `error` without a listener ends the process. */
function discard(client: object): void {
  const { on, close } = Object(client) as { readonly on?: unknown; readonly close?: unknown };
  attempt(() => {
    if (typeof on === 'function') on.call(client, 'error', () => {});
    if (typeof close === 'function') void Promise.resolve(close.call(client)).catch(() => {});
  });
}

/** Runs `act` and ignores what it throws, because the application may have closed the client in the meantime. */
function attempt(act: () => void): void {
  try {
    act();
  } catch {}
}
