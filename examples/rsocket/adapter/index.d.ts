import type { ConnectionOptions } from 'node:tls';
import type { Balancer, BalancingOptions, Transport } from 'evenkeel';
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

/**
 * Creates an RSocket for one Service, used like one that the library's `RSocketConnector` opens. It keeps a connection to each pod and
 * picks a pod for every request. Must be closed.
 */
export function createRSocket(target: string, options?: RSocketOptions): ServiceRSocket;

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

// What the contract test needs.

/** Fills in defaults and checks every option. */
export function connectionSettings(options: RSocketOptions): ConnectionSettings;
export interface ConnectionSettings {
  readonly lease: boolean;
}
/** The RSocket connection to one pod. */
export interface PodRSocket {
  readonly isOpen: boolean;
}
/** Opens RSocket connections to pods over TCP or TLS. `host` is the Service's name, which TLS sends and verifies. */
export function rsocketTransport(settings: ConnectionSettings, host: string): Transport<PodRSocket>;

/** An RSocket request, kept so that it can be sent more than once. */
export interface Request {
  readonly type: 'fireAndForget' | 'requestResponse' | 'requestStream' | 'requestChannel' | 'metadataPush';
  readonly payload: Payload;
  /** How many payloads the caller requested before the first one arrived. */
  requestN: number;
  /** Whether the first payload that the caller sends on a channel is also its last. */
  isCompleted: boolean;
  readonly idempotent: boolean;
}

/** What a stream notifies besides passing payloads on to the receiver of its call. */
export interface StreamOwner {
  readonly receiver: Side;
  /** A payload of the response has arrived. */
  answered(): void;
  /** Both sides of the stream have ended; the receiver is notified afterwards. */
  succeeded(): void;
  /** The stream failed; the receiver has not been notified yet. */
  failed(error: Error): void;
}

/** One request on one RSocket connection. */
export class Stream {
  constructor(pod: PodRSocket, request: Request, owner: StreamOwner);
  begin(request: Request): void;
}
