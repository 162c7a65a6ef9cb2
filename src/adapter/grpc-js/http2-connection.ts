import {
  type ChannelInterface,
  type ChannelOptions,
  connectivityState,
  type experimental,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { type Endpoint, EvenkeelError, endpointAddress } from '../../index.js';
import type { GroupMember, MemberEvents } from '../kit/index.js';
import { allowedStreams, clientOver, endBackoff } from './internals.js';

/** What the connections of a channel share. */
export interface Http2Context {
  readonly helper: experimental.ChannelControlHelper;
  /** The channel's own options, which become arguments of its subchannels. */
  readonly args: ChannelOptions;
  readonly options: { readonly maxConcurrentStreams: number };
  /** Reserves the lowest number that no connection to the endpoint with this key has. The number stays taken until it is freed. */
  takeNumber(key: string): number;
  freeNumber(key: string, number: number): void;
}

/** A unary method that evenkeel itself calls, such as a health check, and its serialization. */
export interface UnaryMethod<Request, Response> {
  readonly method: string;
  readonly encode: (request: Request) => Buffer;
  readonly decode: (message: Buffer) => Response;
}

/** How a unary call that evenkeel itself made ended. */
export type UnaryResult<Response> =
  | { readonly error: ServiceError; readonly answer?: undefined }
  | { readonly error?: undefined; readonly answer: Response };

/**
 * One HTTP/2 connection to one pod: a subchannel of grpc-js that is used for only one connection, opened immediately. GOAWAY and a lost
 * connection look alike to a subchannel; grpc-js's transport decides how running calls end.
 */
export class Http2Connection implements GroupMember {
  readonly subchannel: experimental.SubchannelInterface;
  streams = 0;
  wasUsed = false;
  capacity: number;
  readyAtMs: number = Number.POSITIVE_INFINITY;
  readonly #endpoint: Endpoint;
  readonly #context: Http2Context;
  readonly #number: number;
  #listener: MemberEvents | undefined;
  /** The channel over which evenkeel makes its own calls to the server of this connection; created by the first such call. */
  #ownChannel: ChannelInterface | undefined;
  #opened = false;
  #released = false;

  constructor(endpoint: Endpoint, context: Http2Context, listener: MemberEvents) {
    const { address, port, key, uid } = endpoint;
    const { helper, args } = context;
    this.#endpoint = endpoint;
    this.capacity = context.options.maxConcurrentStreams;
    this.#context = context;
    this.#listener = listener;
    this.#number = context.takeNumber(key);
    // The uid is part of a pod's identity: a later pod at this address never gets this connection (U7).
    const identity = { 'evenkeel.connection': this.#number, ...(uid !== undefined && { 'evenkeel.uid': uid }) };
    try {
      this.subchannel = helper.createSubchannel({ host: address, port }, { ...args, ...identity });
    } catch (error) {
      // Channel credentials may refuse to make a connection, by throwing.
      context.freeNumber(key, this.#number);
      throw error;
    }
    this.subchannel.ref();
    helper.addChannelzChild(this.subchannel.getChannelzRef());
    this.subchannel.addConnectivityStateListener(this.#stateChanged);
    queueMicrotask(() => this.#open());
  }

  get ready(): boolean {
    return !this.#released && this.subchannel.getConnectivityState() === connectivityState.READY;
  }

  /** Gives the connection up. Its calls run to their end; then the connection closes, within the 10 s of grpc-js's own sweep. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#listener = undefined;
    const { helper } = this.#context;
    helper.removeChannelzChild(this.subchannel.getChannelzRef());
    // A channel that is not closed would stay listed in channelz forever.
    this.#ownChannel?.close();
    if (this.subchannel.getConnectivityState() === connectivityState.CONNECTING) {
      // A dial of grpc-js cannot be canceled. The number of this connection stays taken, so that the next attempt dials anew instead of
      // waiting for this dial.
      this.subchannel.unref();
      return;
    }
    this.subchannel.removeConnectivityStateListener(this.#stateChanged);
    this.subchannel.unref();
    this.#context.freeNumber(this.#endpoint.key, this.#number);
  }

  /**
   * Makes a call of evenkeel's own over this connection; the call is not balanced and contains nothing of any caller's. Rejects with the
   * signal's reason; any answer of the server, including errors, is the result.
   */
  callUnary<Request, Response>(
    { method, encode, decode }: UnaryMethod<Request, Response>,
    request: Request,
    signal: AbortSignal,
  ): Promise<UnaryResult<Response>> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      this.#ownChannel ??= this.subchannel.getChannel();
      const client = clientOver(this.#ownChannel);
      const onAbort = (): void => {
        reject(signal.reason);
        call.cancel();
      };
      const done = (error: ServiceError | null, answer?: Response): void => {
        signal.removeEventListener('abort', onAbort);
        resolve(error === null ? { answer: answer as Response } : { error });
      };
      // The call has no grpc-js deadline, because the deadline's timer would outlive the call on such a channel. The signal ends the call.
      const call = client.makeUnaryRequest(method, encode, decode, request, new Metadata(), {}, done);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #open(): void {
    if (this.#released) return;
    switch (this.subchannel.getConnectivityState()) {
      case connectivityState.READY:
        this.#isReady();
        break;
      case connectivityState.TRANSIENT_FAILURE:
        // The subchannel is shared, and waits after a failed attempt, but the pool decides when to try again.
        endBackoff(this.subchannel);
        break;
      default:
        this.subchannel.startConnecting();
    }
  }

  readonly #stateChanged: experimental.ConnectivityStateListener = (
    _subchannel,
    previous,
    state,
    _keepalive,
    error,
  ) => {
    if (this.#released) {
      this.subchannel.removeConnectivityStateListener(this.#stateChanged);
      this.#context.freeNumber(this.#endpoint.key, this.#number);
      return;
    }
    switch (state) {
      case connectivityState.READY:
        // What the server allows is known once grpc-js has notified all listeners.
        queueMicrotask(() => {
          if (this.ready) this.#isReady();
          else if (!this.#released) this.#isLost(undefined);
        });
        break;
      case connectivityState.TRANSIENT_FAILURE:
        this.#failed(error ?? 'the connection failed');
        break;
      case connectivityState.IDLE:
        if (this.#opened) this.#isLost(undefined);
        else if (previous === connectivityState.TRANSIENT_FAILURE) this.subchannel.startConnecting();
        break;
    }
  };

  #isReady(): void {
    if (this.#opened) return;
    this.#opened = true;
    const streams = allowedStreams(this.subchannel);
    // grpc-js does not say when the server allows some, and a call would wait until its deadline.
    if (streams === 0) {
      this.#failed(`${endpointAddress(this.#endpoint)} allows no HTTP/2 streams at present`);
      return;
    }
    this.capacity = Math.min(this.capacity, streams);
    this.#listener?.ready();
  }

  #failed(why: string): void {
    this.#isLost(new EvenkeelError('EVENKEEL_CONNECT', why, { endpoint: endpointAddress(this.#endpoint) }));
  }

  #isLost(error: Error | undefined): void {
    const listener = this.#listener;
    this.release();
    listener?.lost(error);
  }
}
