/**
 * Everything undocumented that evenkeel uses of AMQP libraries: of amqplib, as in 0.10.3, 1 and 2.3; of amqp-connection-manager, as in 5.0;
 * of rabbitmq-client, as in all releases of major 5. The tests run against the oldest and the newest of these versions.
 */
import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';

interface ModelChannel {
  /** Set while the channel waits for the answer to a command such as `basic.qos`. */
  readonly reply?: unknown;
  waitForConfirms?(): Promise<void>;
}

interface ModelInternals {
  /** The connection on the wire, behind the object that amqplib gives to applications. */
  readonly connection: EventEmitter & {
    /** The channels of the connection, by their number. */
    readonly channels?: readonly ({ readonly channel?: ModelChannel } | null)[];
  };
}

const internalsOf = (model: object): ModelInternals => model as ModelInternals;

/**
 * Returns the connection on the wire of an amqplib connection, whose listeners are not the application's. Managers call
 * `removeAllListeners` on the application's object; listeners there would not notice the end of the connection.
 */
export function rawConnection(model: object): EventEmitter {
  return internalsOf(model).connection;
}

/** Whether `model` is a connection of amqplib, so that its end can be noticed. */
export function isModel(model: unknown): boolean {
  return typeof (model as Partial<ModelInternals> | null | undefined)?.connection?.on === 'function';
}

/**
 * Whether a channel of an amqplib connection waits for the answer to a command. Managers ignore the promise of `prefetch`, so if a manager
 * moved while that promise is pending, its rejection would be unhandled
 * (https://github.com/jwalton/node-amqp-connection-manager/issues/97).
 */
export function awaitsAnswer(model: object): boolean {
  return internalsOf(model).connection.channels?.some((slot) => slot?.channel?.reply) === true;
}

/**
 * Returns promises that resolve when the messages in flight on a connection's channels are confirmed. A move that does not wait for them
 * sends more messages a second time than necessary.
 */
export function confirmations(model: object): readonly Promise<void>[] {
  const { channels = [] } = internalsOf(model).connection;
  return channels.flatMap((slot) => slot?.channel?.waitForConfirms?.() ?? []);
}

interface RabbitmqInternals {
  readonly _socket: Socket;
}

/**
 * Whether `connection` is a connection of rabbitmq-client 5. An object of another class is refused at once, instead of failing at its first
 * dial.
 */
export function isRabbitmqConnection(connection: object): boolean {
  return '_socket' in connection;
}

/**
 * Returns the socket that a connection of rabbitmq-client opened last. It shows why the broker ended the connection, and a move closes it.
 */
export function socketOf(connection: object): Socket {
  return (connection as RabbitmqInternals)._socket;
}
