/**
 * Everything that the AMQP libraries do not document and evenkeel uses: amqplib, seen in 0.10.3, 1 and 2.3; amqp-connection-manager, seen in
 * 5.0; rabbitmq-client, the same in all releases of major 5. The tests run against the oldest and the newest.
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
    /** Channels by number. */
    readonly channels?: readonly ({ readonly channel?: ModelChannel } | null)[];
  };
}

const internalsOf = (model: object): ModelInternals => model as ModelInternals;

/**
 * The connection behind one of amqplib. Its listeners are separate from the application's: without it, `removeAllListeners`, which managers
 * call, would make us deaf to its end.
 */
export function rawConnection(model: object): EventEmitter {
  return internalsOf(model).connection;
}

/**
 * Whether a channel of a connection waits for the answer to a command. A manager ignores the promise of `prefetch`, so without it, one that
 * moves could leave an unhandled rejection (https://github.com/jwalton/node-amqp-connection-manager/issues/97).
 */
export function awaitsAnswer(model: object): boolean {
  return internalsOf(model).connection.channels?.some((slot) => slot?.channel?.reply) === true;
}

/** Resolve when the messages in flight on a channel are confirmed. Without it, more messages than necessary are sent again after a move. */
export function confirmations(model: object): readonly Promise<void>[] {
  const { channels = [] } = internalsOf(model).connection;
  return channels.flatMap((slot) => slot?.channel?.waitForConfirms?.() ?? []);
}

interface RabbitmqInternals {
  readonly _socket: Socket;
}

/** Whether this is a connection of rabbitmq-client 5. Without it, another class would fail at its first connection. */
export function isRabbitmqConnection(connection: object): boolean {
  return '_socket' in connection;
}

/** The socket that a connection of rabbitmq-client opened last. Without it, nobody would learn why the broker ended it, and it could not move. */
export function socketOf(connection: object): Socket {
  return (connection as RabbitmqInternals)._socket;
}
