import type { ConnectionOptions } from 'node:tls';
import type {
  Cancellable,
  ConnectorConfig,
  OnExtensionSubscriber,
  OnNextSubscriber,
  OnTerminalSubscriber,
  Payload,
  Requestable,
  RSocket,
} from 'rsocket-core';
import { type Balancer, type BalancingOptions, type Clock, systemClock } from '../../index.js';
import { checkBoolean, checkKeys, checkNumber, optionError } from '../kit/index.js';

/** Options of `createRSocket`. */
export interface RSocketOptions extends BalancingOptions {
  /**
   * How each connection starts, as for the library's `RSocketConnector`: payload and MIME types. A keep-alive frame is
   * sent every `keepAlive` ms (default 20000); a connection without any from the server for `lifetime` ms (default 90000)
   * ends.
   * @defaultValue the library's
   */
  readonly setup?: ConnectorConfig['setup'] | undefined;
  /** How large a frame may be, as for the library's `RSocketConnector`. @defaultValue no fragmentation */
  readonly fragmentation?: ConnectorConfig['fragmentation'] | undefined;
  /** Answers requests of servers to this client, on every connection. @defaultValue they get an error */
  readonly responder?: Partial<RSocket> | undefined;
  /**
   * Whether servers grant how many requests they take (LEASE frames). Client and server must agree, or the server refuses the
   * connection. @defaultValue false
   */
  readonly lease?: boolean | undefined;
  /** Settings of Node's `tls.connect`; without them connections are plain. @defaultValue none */
  readonly tls?: ConnectionOptions | undefined;
}

/** Options of one call. */
export interface CallOptions {
  /** For hash pickers: calls with the same key go to the same pod. @defaultValue none */
  readonly key?: string | undefined;
}

/** Options of `requestResponse`. */
export interface RequestResponseOptions extends CallOptions {
  /** Whether the request may be sent twice: it is then retried if its connection is lost before the response. @defaultValue false */
  readonly idempotent?: boolean | undefined;
}

/** Receives the response. */
export type Receiver = OnTerminalSubscriber & OnNextSubscriber & OnExtensionSubscriber;

/** Either side of a channel. */
export type Side = Receiver & Requestable & Cancellable;

/** An RSocket that sends every request to one of the pods of a Service. */
export interface ServiceRSocket extends RSocket, AsyncDisposable {
  /** State and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /** Completes when the request has been passed to a connection. Nobody knows whether it arrives. */
  fireAndForget(payload: Payload, receiver: OnTerminalSubscriber, options?: CallOptions): Cancellable;
  /** One request and one response. The pod is picked when this is called. */
  requestResponse(
    payload: Payload,
    receiver: Receiver,
    options?: RequestResponseOptions,
  ): Cancellable & OnExtensionSubscriber;
  /** One request and a stream of responses, all from the pod picked when this is called. */
  requestStream(
    payload: Payload,
    initialRequestN: number,
    receiver: Receiver,
    options?: CallOptions,
  ): Requestable & Cancellable & OnExtensionSubscriber;
  /** A stream each way, with the pod picked when this is called. */
  requestChannel(
    payload: Payload,
    initialRequestN: number,
    isCompleted: boolean,
    receiver: Side,
    options?: CallOptions,
  ): Side;
  /** Goes to one pod, like every request. */
  metadataPush(metadata: Buffer, receiver: OnTerminalSubscriber, options?: CallOptions): void;
  /**
   * Accepts no new request and lets running ones finish, for at most `pool.drainTimeoutMs`, or 30 s if that is not set; then they are
   * cut. With an error they are cut immediately.
   */
  close(error?: Error): Promise<void>;
}

/** Names of `RSocketOptions` that are not options of every balancer. */
export const rsocketOptionNames: readonly (keyof RSocketOptions)[] = Object.freeze([
  'setup',
  'fragmentation',
  'responder',
  'lease',
  'tls',
] as const);

/** The options of a connection, complete and checked. */
export interface ConnectionSettings {
  readonly setup: NonNullable<ConnectorConfig['setup']> & { readonly keepAlive: number; readonly lifetime: number };
  readonly fragmentation: NonNullable<ConnectorConfig['fragmentation']>;
  readonly responder: Partial<RSocket>;
  readonly lease: boolean;
  readonly tls: ConnectionOptions | undefined;
  readonly clock: Clock;
}

const setupNames = ['payload', 'dataMimeType', 'metadataMimeType', 'keepAlive', 'lifetime'];

/** The longest time that fits into a frame, in ms. */
const MAX_MS = 0x7fffffff;

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION that names the field. */
export function connectionSettings(options: RSocketOptions): ConnectionSettings {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const { setup = {}, fragmentation = {}, responder = {}, tls, clock = systemClock } = options;
  checkKeys('setup', setup, setupNames);
  const keepAlive = checkNumber('setup.keepAlive', setup.keepAlive, 20_000, { above: 0, max: MAX_MS, integer: true });
  const bounds = { above: keepAlive, max: MAX_MS, integer: true };
  const lifetime = checkNumber('setup.lifetime', setup.lifetime, Math.max(90_000, keepAlive + 1), bounds);
  checkKeys('fragmentation', fragmentation, ['maxOutboundFragmentSize']);
  const { maxOutboundFragmentSize: size } = fragmentation;
  if (size !== 0) checkNumber('fragmentation.maxOutboundFragmentSize', size, 0, { min: 64, integer: true });
  if (typeof responder !== 'object' || responder === null) throw optionError('responder', 'an object', responder);
  if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
    throw optionError('tls', 'an object as for tls.connect', tls);
  }
  return {
    setup: { ...setup, keepAlive, lifetime },
    fragmentation: { ...fragmentation },
    responder,
    lease: checkBoolean('lease', options.lease, false),
    // Sockets are opened with it long after this.
    tls: tls && { ...tls },
    clock,
  };
}
