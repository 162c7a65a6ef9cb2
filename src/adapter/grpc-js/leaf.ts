import { type ChannelInterface, type ChannelOptions, connectivityState, type experimental } from '@grpc/grpc-js';
import { type Endpoint, EvenkeelError, endpointAddress } from '../../index.js';
import type { ConnectionNumbers } from './connection-numbers.js';

/** What the leaves of a channel share. */
export interface LeafContext {
  readonly helper: experimental.ChannelControlHelper;
  /** The channel's own options, as arguments of its subchannels. */
  readonly args: ChannelOptions;
  readonly numbers: ConnectionNumbers;
  /** What became of connections, for metrics. */
  readonly attempts: { succeeded: number; failed: number; disconnections: number };
  /** A ready pod got another connection: it can take more calls. */
  readonly grew: () => void;
}

/** Events of a leaf; never called before the constructor has returned. */
export interface LeafListener {
  /** It can carry calls. */
  ready(): void;
  /** It could not be opened, or takes no further call; it is useless from now on. */
  lost(error: Error | undefined): void;
}

/**
 * One HTTP/2 connection to one pod: a subchannel of grpc-js that is used for only one connection, opened immediately. GOAWAY and a lost
 * connection look the same here; the transport decides how running calls end.
 */
export class Leaf {
  readonly subchannel: experimental.SubchannelInterface;
  /** Calls running on it. */
  streams = 0;
  /** When it became ready, in ms; written by its user. */
  readyAtMs: number = Number.POSITIVE_INFINITY;
  /** Over which its server is asked, once it was. */
  ownChannel: ChannelInterface | undefined;
  readonly #endpoint: Endpoint;
  readonly #context: LeafContext;
  readonly #number: number;
  #listener: LeafListener | undefined;
  #opened = false;
  #released = false;

  constructor(endpoint: Endpoint, context: LeafContext, listener: LeafListener) {
    const { address, port, key, uid } = endpoint;
    const { helper, args, numbers } = context;
    this.#endpoint = endpoint;
    this.#context = context;
    this.#listener = listener;
    this.#number = numbers.take(key);
    // The uid is part of a pod's identity: another pod at this address never gets this connection (U7).
    const identity = { 'evenkeel.connection': this.#number, ...(uid !== undefined && { 'evenkeel.uid': uid }) };
    try {
      this.subchannel = helper.createSubchannel({ host: address, port }, { ...args, ...identity });
    } catch (error) {
      // Credentials may refuse.
      numbers.free(key, this.#number);
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

  /** Gives it up. Its calls run to their end; then the connection closes, within the 10 s of grpc-js's own sweep. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#listener = undefined;
    const { helper, numbers, attempts } = this.#context;
    if (this.#opened) attempts.disconnections++;
    helper.removeChannelzChild(this.subchannel.getChannelzRef());
    // Otherwise it stays listed in channelz forever.
    this.ownChannel?.close();
    if (this.subchannel.getConnectivityState() === connectivityState.CONNECTING) {
      // A dial cannot be canceled. Its number stays taken, so that the next attempt dials again instead of waiting for it.
      this.subchannel.unref();
      return;
    }
    this.subchannel.removeConnectivityStateListener(this.#stateChanged);
    this.subchannel.unref();
    numbers.free(this.#endpoint.key, this.#number);
  }

  #open(): void {
    if (this.#released) return;
    switch (this.subchannel.getConnectivityState()) {
      case connectivityState.READY:
        this.#isReady();
        break;
      case connectivityState.TRANSIENT_FAILURE:
        // Shared, and in the backoff of an earlier attempt. The pool decides when to try.
        this.subchannel.getRealSubchannel().resetBackoff();
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
      this.#context.numbers.free(this.#endpoint.key, this.#number);
      return;
    }
    switch (state) {
      case connectivityState.READY:
        this.#isReady();
        break;
      case connectivityState.TRANSIENT_FAILURE:
        this.#isLost(new EvenkeelError('EVENKEEL_CONNECT', error ?? 'the connection failed', this.#where()));
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
    this.#context.attempts.succeeded++;
    this.#listener?.ready();
  }

  #isLost(error: Error | undefined): void {
    const listener = this.#listener;
    if (!this.#opened) this.#context.attempts.failed++;
    this.release();
    listener?.lost(error);
  }

  #where(): { readonly endpoint: string } {
    return { endpoint: endpointAddress(this.#endpoint) };
  }
}
