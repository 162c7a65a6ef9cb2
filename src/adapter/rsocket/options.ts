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
import {
  anyOption,
  booleanOption,
  checkedOption,
  checkKeys,
  checkNumber,
  type Filled,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionError,
  optionTable,
} from '../kit/index.js';

/** Options of an RSocket over a Service: how connections to pods start, and how the pod of each request is picked. All are optional. */
export interface RSocketOptions extends BalancingOptions {
  /**
   * How each connection starts, as for the library's `RSocketConnector`: `payload`, `dataMimeType`, `metadataMimeType`. A keep-alive frame
   * is sent every `keepAlive` ms (default 20000). A connection on which the server sends no such frame for `lifetime` ms (default 90000,
   * above `keepAlive`) is closed. @defaultValue the library's
   */
  readonly setup?: ConnectorConfig['setup'] | undefined;
  /**
   * How large a frame may be, as for the library's `RSocketConnector`: `{ maxOutboundFragmentSize }`. Without this option a payload above
   * 16 MiB fails. @defaultValue no fragmentation
   */
  readonly fragmentation?: ConnectorConfig['fragmentation'] | undefined;
  /** Answers the requests that servers send to this client, on every connection. @defaultValue servers get an error */
  readonly responder?: Partial<RSocket> | undefined;
  /**
   * Whether servers grant how many requests they take (LEASE frames). Client and server must agree, or the server refuses the connection.
   * @defaultValue false
   */
  readonly lease?: boolean | undefined;
  /**
   * Settings of Node's `tls.connect`; without them connections are plain. The certificate must name the Service, not the pod.
   * @defaultValue none
   */
  readonly tls?: ConnectionOptions | undefined;
}

/** Options of one RSocket request: which pod it goes to. */
export interface CallOptions {
  /** The key for hash pickers: requests with the same key go to the same pod. @defaultValue none */
  readonly key?: string | undefined;
}

/** Options of one request with one response: which pod it goes to, and whether it may be repeated. */
export interface RequestResponseOptions extends CallOptions {
  /** Whether the request may run twice: it is then repeated if its connection is lost before the response. @defaultValue false */
  readonly idempotent?: boolean | undefined;
}

/** The subscriber that receives the response to an RSocket request. */
export type Receiver = OnTerminalSubscriber & OnNextSubscriber & OnExtensionSubscriber;

/** One side of an RSocket channel: it receives payloads, and is told how many to send. */
export type Side = Receiver & Requestable & Cancellable;

/** An RSocket that sends every request to one of the pods of a Service. */
export interface ServiceRSocket extends RSocket, AsyncDisposable {
  /** The RSocket's balancer: `ready()` waits for a pod, `snapshot()` returns the current state. */
  readonly balancer: Balancer<unknown>;
  /** Sends a request without a response. Completes when the request was passed to a connection; whether it arrives is unknown. */
  fireAndForget(payload: Payload, receiver: OnTerminalSubscriber, options?: CallOptions): Cancellable;
  /** Sends one request, which gets one response. The pod is picked when this method is called. */
  requestResponse(
    payload: Payload,
    receiver: Receiver,
    options?: RequestResponseOptions,
  ): Cancellable & OnExtensionSubscriber;
  /** Sends one request, which gets a stream of responses, all from the pod that is picked when this method is called. */
  requestStream(
    payload: Payload,
    initialRequestN: number,
    receiver: Receiver,
    options?: CallOptions,
  ): Requestable & Cancellable & OnExtensionSubscriber;
  /** Opens a stream in each direction, to the pod that is picked when this method is called. */
  requestChannel(
    payload: Payload,
    initialRequestN: number,
    isCompleted: boolean,
    receiver: Side,
    options?: CallOptions,
  ): Side;
  /** Sends metadata to one pod, picked as for every request. */
  metadataPush(metadata: Buffer, receiver: OnTerminalSubscriber, options?: CallOptions): void;
  /**
   * Refuses new requests and lets running ones finish for at most `pool.drainTimeoutMs`, or 30 s if that is not set; then they are cut.
   * With an error, they are cut immediately.
   */
  close(error?: Error): Promise<void>;
}

type Setup = NonNullable<ConnectorConfig['setup']>;

/** The options of RSocket connections, after defaults were filled in and everything was checked. */
export interface ConnectionSettings {
  readonly setup: Setup & { readonly keepAlive: number; readonly lifetime: number };
  readonly fragmentation: NonNullable<ConnectorConfig['fragmentation']>;
  readonly responder: Partial<RSocket>;
  readonly lease: boolean;
  readonly tls: ConnectionOptions | undefined;
  readonly clock: Clock;
}

/** The longest time that an RSocket frame can state, in ms. */
const MAX_MS = 0x7fffffff;
const ms = { above: 0, max: MAX_MS, integer: true };

const setupTable = optionTable<Filled<Setup, Exclude<keyof Setup, 'keepAlive'>>>('setup', {
  payload: anyOption<NonNullable<Setup['payload']>>(),
  dataMimeType: anyOption<string>(),
  metadataMimeType: anyOption<string>(),
  keepAlive: numberOption(20_000, ms),
  lifetime: optionalNumber(ms),
});

export const rsocketTable: OptionTable<Omit<ConnectionSettings, 'clock'>> = optionTable('options', {
  setup: checkedOption(withLifetime({}), (_name, value) => withLifetime(value as Setup)),
  fragmentation: checkedOption<ConnectionSettings['fragmentation']>({}, (name, value) => {
    checkKeys(name, value, ['maxOutboundFragmentSize']);
    const { maxOutboundFragmentSize: size } = value as ConnectionSettings['fragmentation'];
    if (size !== 0) checkNumber(`${name}.maxOutboundFragmentSize`, size, 0, { min: 64, integer: true });
    return { ...(value as ConnectionSettings['fragmentation']) };
  }),
  responder: checkedOption<Partial<RSocket>>({}, (name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'an object', value);
    return value;
  }),
  lease: booleanOption(false),
  tls: checkedOption<ConnectionOptions | undefined>(undefined, (name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'an object as for tls.connect', value);
    // The object is copied, because sockets are opened with these TLS settings long after the caller passed them.
    return { ...value };
  }),
});

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION with a message that names the option. */
export function connectionSettings(options: RSocketOptions): ConnectionSettings {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const { clock = systemClock } = options;
  return { ...rsocketTable.resolveOwn(options), clock };
}

function withLifetime(setup: Setup): ConnectionSettings['setup'] {
  const { keepAlive, lifetime } = setupTable.resolve(setup);
  const usual = Math.max(90_000, keepAlive + 1);
  return { ...setup, keepAlive, lifetime: checkNumber('setup.lifetime', lifetime, usual, { ...ms, above: keepAlive }) };
}
