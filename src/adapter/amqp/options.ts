import type { Balancer, BalancingOptions } from '../../index.js';
import {
  anyOption,
  checkedOption,
  type Filled,
  type OptionTable,
  optionError,
  optionTable,
  type PlaceOptions,
  type PlacingOptions,
} from '../kit/index.js';

/** Options of `createBrokers`. `onLeaving` gets the connection or manager that `Brokers` returned. */
export interface BrokersOptions extends BalancingOptions, PlacingOptions<object> {}

/** Options of one amqplib connection. */
export interface ConnectOptions extends Pick<PlaceOptions, 'signal' | 'key'> {
  /** What amqplib's `connect` takes as its second argument: TLS settings, `clientProperties`, `noDelay` … @defaultValue none */
  readonly socketOptions?: object | undefined;
}

export const connectTable: OptionTable<Filled<ConnectOptions, 'signal' | 'key'>> = optionTable('options', {
  socketOptions: checkedOption<object>({}, (name, value) => {
    checkObject(name, value);
    return value as object;
  }),
  signal: anyOption<AbortSignal>(),
  key: anyOption<string>(),
});

/** Opens connections to the brokers behind a Service, with the library that is passed in. */
export interface Brokers extends AsyncDisposable {
  /** State and control of the brokers' balancer: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /**
   * For amqplib: opens a connection to the broker with the fewest connections of this process, or to another if that fails. Rejects with EVENKEEL_NOT_READY (no broker could be connected to in time) and the other codes of `balancer.acquire`,
   * with amqplib's error if the broker refuses the user or the virtual host, or with the signal's reason.
   *
   * @param connect `connect` of `amqplib`. That of `amqplib/callback_api` must be promisified.
   */
  connect<C extends object>(
    connect: (url: string, socketOptions?: object) => PromiseLike<C>,
    options?: ConnectOptions,
  ): Promise<C>;
  /**
   * For amqp-connection-manager: creates a manager that connects to the broker with the fewest connections of this process each time,
   * and moves by its `reconnect()` when its broker leaves.
   *
   * @param connect `connect` of `amqp-connection-manager`.
   * @param options Its options; evenkeel sets `findServers`, and `reconnectTimeInSeconds` is 0.2 unless set.
   */
  connectManager<M extends object, O extends object>(
    connect: (urls: undefined, options?: O) => M,
    options?: Omit<O, 'findServers'>,
  ): M;
  /**
   * For rabbitmq-client: creates a connection that goes to the broker with the fewest connections of this process each time it
   * connects, and moves when its broker leaves.
   *
   * @param Connection The class `Connection` of `rabbitmq-client`.
   * @param options Its options; evenkeel sets URL and hosts, and `retryLow` is 200 unless set.
   */
  createConnection<C extends object, O extends object>(
    Connection: new (options?: string | O) => C,
    options?: Omit<O, 'url' | 'hosts' | 'hostname' | 'port'>,
  ): C;
  /**
   * Opens no new connection. Open ones are told to leave, with the reason `close`, and closed, at the latest after
   * `pool.drainTimeoutMs` or when `signal` aborts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/** Seconds after which a manager reconnects by default. */
export const RECONNECT_SECONDS = 0.2;
/** The first pause of rabbitmq-client before it reconnects, by default, in ms. */
export const RETRY_LOW_MS = 200;

/** Throws EVENKEEL_OPTION unless `value` is an object. */
export function checkObject(name: string, value: unknown): void {
  if (typeof value !== 'object' || value === null) throw optionError(name, 'an object', value);
}

/** Throws EVENKEEL_OPTION if `options` has one of these names. */
export function refuse(options: object, names: readonly string[]): void {
  for (const name of names) {
    // The value is not repeated, because it may contain a password.
    if (name in options) throw optionError(`options.${name}`, 'left out: evenkeel finds the brokers', typeof name);
  }
}
