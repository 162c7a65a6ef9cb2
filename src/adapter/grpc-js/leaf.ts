import { type ChannelInterface, type ChannelOptions, connectivityState, type experimental } from '@grpc/grpc-js';
import { type Endpoint, EvenkeelError, endpointAddress } from '../../index.js';
import type { ConnectionNumbers } from './connection-numbers.js';

/** What all leaves of a channel share. */
export interface LeafContext {
  readonly helper: experimental.ChannelControlHelper;
  /** The channel's own options, as arguments of its subchannels. */
  readonly args: ChannelOptions;
  readonly numbers: ConnectionNumbers;
  /** A further connection to a ready pod: it can take more calls. */
  readonly grew: () => void;
}

/** What is told of a leaf; never before the constructor has returned. */
export interface LeafListener {
  /** It can carry calls. */
  ready(): void;
  /** It could not be opened, or it takes no further call; it is of no use any more. */
  lost(error: Error | undefined): void;
}

/**
 * One HTTP/2 connection to one pod: a subchannel of grpc-js that is used for one connection only. Opened at once; the
 * other side's GOAWAY and the loss of the connection look alike from here, running calls end as the transport sees fit.
 */
export class Leaf {
  readonly subchannel: experimental.SubchannelInterface;
  /** Calls running on it. */
  streams = 0;
  /** Since when it is ready, in ms; its user writes it. */
  readyAtMs: number = Number.POSITIVE_INFINITY;
  /** Over which its health is asked, once it was. */
  healthChannel: ChannelInterface | undefined;
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

  /** Gives it up. Calls on it run to their end; the connection closes after them, within the 10 s of grpc-js's own sweep. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#listener = undefined;
    const { helper, numbers } = this.#context;
    helper.removeChannelzChild(this.subchannel.getChannelzRef());
    // Else it stays listed in channelz for ever.
    this.healthChannel?.close();
    if (this.subchannel.getConnectivityState() === connectivityState.CONNECTING) {
      // A dial cannot be called off. Its number stays taken, so that the next attempt dials anew and does not wait for it.
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
        // Shared, and in the backoff of an earlier attempt: when to try is decided by the pool.
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
    this.#listener?.ready();
  }

  #isLost(error: Error | undefined): void {
    const listener = this.#listener;
    this.release();
    listener?.lost(error);
  }

  #where(): { readonly endpoint: string } {
    return { endpoint: endpointAddress(this.#endpoint) };
  }
}
