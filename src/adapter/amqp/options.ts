import type { Balancer, BalancingOptions } from '../../index.js';
import {
  anyOption,
  checkedOption,
  checkTlsOptions,
  type Filled,
  type OptionTable,
  optionError,
  optionKindError,
  optionTable,
  type PlaceOptions,
  type PlacingOptions,
} from '../kit/index.js';

/**
 * Options of `createBrokers`: those of every balancer, and how connections leave their broker. `onLeaving` gets the connection or manager
 * that `Brokers` returned. Invalid options throw EVENKEEL_OPTION.
 */
export interface BrokersOptions extends BalancingOptions, PlacingOptions<object> {}

/**
 * Options of one amqplib connection: the second argument of amqplib's `connect`, a signal that stops the waiting, and a key for hash
 * pickers.
 */
export interface ConnectOptions extends Pick<PlaceOptions, 'signal' | 'key'> {
  /** The second argument of amqplib's `connect`: TLS settings, `clientProperties`, `noDelay` and others. @defaultValue none */
  readonly socketOptions?: object | undefined;
}

export const connectTable: OptionTable<Filled<ConnectOptions, 'signal' | 'key'>> = optionTable('options', {
  socketOptions: checkedOption<object>({}, (name, value) => {
    checkObject(name, value);
    return checkTlsOptions(name, value);
  }),
  signal: anyOption<AbortSignal>(),
  key: anyOption<string>(),
});

/** Opens connections to the brokers behind a Service, each with the AMQP library that the application passes in. */
export interface Brokers extends AsyncDisposable {
  /** The balancer that chooses the brokers, for its state and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /**
   * For amqplib: opens a connection to the broker to which this process has the fewest connections, or to another broker if that fails.
   * Rejects with EVENKEEL_NOT_READY (no broker could be connected to in time) and the other codes of `balancer.acquire`, with amqplib's
   * error if the broker refuses the user or the virtual host, or with the signal's reason.
   *
   * @param connect `connect` of `amqplib`; the one of `amqplib/callback_api` must be promisified.
   */
  connect<C extends object>(
    connect: (url: string, socketOptions?: object) => PromiseLike<C>,
    options?: ConnectOptions,
  ): Promise<C>;
  /**
   * For amqp-connection-manager: creates a manager. Whenever the manager connects, it goes to the broker to which this process has the
   * fewest connections, and when its broker leaves, it moves with its `reconnect()`.
   *
   * @param connect `connect` of `amqp-connection-manager`.
   * @param options The manager's options; evenkeel sets `findServers`, and `reconnectTimeInSeconds` is 0.2 unless set.
   */
  connectManager<M extends object, O extends object>(
    connect: (urls: undefined, options?: O) => M,
    options?: Omit<O, 'findServers'>,
  ): M;
  /**
   * For rabbitmq-client: creates a connection. Whenever the connection dials, it goes to the broker to which this process has the fewest
   * connections, and when its broker leaves, it moves.
   *
   * @param Connection The class `Connection` of `rabbitmq-client`.
   * @param options The connection's options; evenkeel sets URL and hosts, and `retryLow` is 200 unless set.
   */
  createConnection<C extends object, O extends object>(
    Connection: new (options?: string | O) => C,
    options?: Omit<O, 'url' | 'hosts' | 'hostname' | 'port'>,
  ): C;
  /**
   * Opens no connection from now on. Open connections are told to leave, with the reason `close`, and are closed at the latest after
   * `pool.drainTimeoutMs` or when `signal` aborts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/** How long a manager waits before it reconnects, in seconds, unless the application sets another time. */
export const RECONNECT_SECONDS = 0.2;
/** How long rabbitmq-client pauses before it reconnects for the first time, in ms, unless the application sets another time. */
export const RETRY_LOW_MS = 200;

/** Throws EVENKEEL_OPTION unless `value` is an object. */
export function checkObject(name: string, value: unknown): void {
  if (typeof value !== 'object' || value === null) throw optionError(name, 'an object', value);
}

/** Throws EVENKEEL_OPTION if `options` has one of `names`, which evenkeel sets itself. */
export function refuse(options: object, names: readonly string[]): void {
  for (const name of names) {
    // The value may contain a password.
    if (name in options)
      throw optionKindError(`options.${name}`, 'left out: evenkeel finds the brokers', (options as never)[name]);
  }
}
