import {
  Channel,
  type ChannelCredentials,
  type ChannelOptions,
  type Deadline,
  experimental,
  type Metadata,
  status,
} from '@grpc/grpc-js';
import type { Balancer, BalancerSnapshot, Priority, Timer } from '../../index.js';
import {
  checkBalancingOptions,
  checkKeys,
  dateIn,
  inheritedPriority,
  isTraced,
  noCounts,
  offAbort,
  onAbort,
  remainingOf,
} from '../kit/index.js';
import { authorityOf } from './address.js';
import { closedError } from './admission.js';
import { BalancedCall } from './balanced-call.js';
import {
  asPickInformation,
  beginWith,
  type CallConfig,
  type ChannelCall,
  hiddenName,
  resolutionWith,
} from './internals.js';
import { type ChannelBalancer, type ResolvedGrpcOptions, resolveGrpcOptions, subchannelArgs } from './options.js';
import type { PodConnection } from './pod-connection.js';
import { Method, mergeServiceConfig, type ServiceConfig } from './service-config.js';
import { type TracedChannel, tracedChannel, traceFromStart, traceOfCall } from './traced-call.js';

/** The hidden channel option in which a load balancing policy finds the state of its channel. */
export const stateKey: string = hiddenName('state');

/** How often a channel for which `ready()` waits is kept from going idle, in ms. grpc-js lets no channel go idle in less than a second. */
const AWAKE_MS = 500;

/** The largest number of methods whose configuration a channel remembers. */
const MAX_METHODS = 1_000;

/** What `serviceChannelOptions` adds to the options of grpc-js. */
export class HiddenOptions {
  static readonly key: string = hiddenName('options');
  readonly options: ResolvedGrpcOptions;
  /** Whether several channels may have these options. */
  readonly isShared: boolean;
  /** The state of the one channel that has these options, if its target is a Service. */
  state: ChannelState | undefined;

  constructor(options: ResolvedGrpcOptions, isShared: boolean) {
    this.options = options;
    this.isShared = isShared;
  }

  /** Returns a short text, because grpc-js prints channel options as JSON when it traces. */
  toJSON(): string {
    return 'evenkeel';
  }
}

/** A channel that evenkeel creates. It adds a deadline and a priority to each call. */
export class BalancedChannel extends Channel {
  readonly #options: ResolvedGrpcOptions;
  readonly #traced: TracedChannel;
  readonly #state: ChannelState | undefined;

  constructor(
    address: string,
    credentials: ChannelCredentials,
    channelOptions: ChannelOptions,
    options: ResolvedGrpcOptions,
  ) {
    const hidden = new HiddenOptions(options, false);
    super(address, credentials, { ...channelOptions, [HiddenOptions.key]: hidden });
    this.#options = options;
    this.#traced = tracedChannel(address.slice(address.indexOf(':') + 1), options);
    this.#state = hidden.state;
    if (this.#state !== undefined) this.#state.channel = this;
  }

  /**
   * Creates a call. A call made while a request is being served gets no more time than that request has left; grpc-js sends this time to
   * the server.
   */
  override createCall(
    method: string,
    deadline: Deadline,
    host: string | null | undefined,
    parentCall: Parameters<Channel['createCall']>[3],
    propagateFlags: number | null | undefined,
  ): ChannelCall {
    const { context, priorityHeader } = this.#options.propagation;
    const served = context === undefined ? undefined : (context.current() ?? undefined);
    const remainingMs = served && remainingOf(served);
    let sooner = deadline;
    if (remainingMs !== undefined) {
      const date = dateIn(remainingMs);
      if (!(Number(deadline) <= date)) sooner = date;
    }
    const call = super.createCall(method, sooner, host, parentCall, propagateFlags);
    const priority = served && inheritedPriority(served);
    if (priority !== undefined && priorityHeader !== undefined) sayPriority(call, priorityHeader, priority);
    if (isTraced()) traceFromStart(call, this.#traced, method);
    return call;
  }

  override close(): void {
    if (this.#state !== undefined) this.#state.closed = true;
    super.close();
  }
}

/**
 * Makes a call send a priority, unless its caller set one. The priority is read now, because the request being served is no longer known
 * when the call is placed.
 */
function sayPriority(call: ChannelCall, name: string, priority: Priority): void {
  beginWith(call, (start, metadata, listener) => {
    const sent = metadata.clone();
    if (sent.get(name).length === 0) sent.set(name, priority);
    start(sent, listener);
  });
}

/** The balancing of a channel that is not idle. */
export interface RunningPolicy {
  readonly balancer: Balancer<PodConnection>;
  /** The channel was closed: calls fail from now on. */
  channelClosed(): void;
}

/**
 * The state of a channel, whether idle or not. For grpc-js this object is the channel's resolver, but it resolves nothing: it gives the
 * channel its policy, whose balancer looks for endpoints from the first call on, and it gives each call its method's configuration and a
 * `BalancedCall`, the one object that follows the call through its attempts.
 */
export class ChannelState implements experimental.Resolver, experimental.ConfigSelector {
  /** The Service's name as the application wrote it. */
  readonly service: string;
  readonly options: ResolvedGrpcOptions;
  /** The channel options with which subchannels are created. */
  readonly args: ChannelOptions;
  /** The grpc-js channel, if evenkeel created it. */
  channel: Channel | undefined;
  /**
   * Whether the channel, or its balancing, was closed for good. grpc-js forgets that it was closed as soon as somebody waits for the
   * channel again.
   */
  closed = false;
  readonly #listener: experimental.ResolverListener;
  readonly #serviceConfig: ServiceConfig;
  readonly #traced: TracedChannel;
  readonly #methods = new Map<string, Method>();
  #phase: 'new' | 'awake' | 'asleep' = 'new';
  #policy: RunningPolicy | undefined;
  /** Whether the resolver had delivered a first set before the channel went idle. */
  #wasReady = false;
  /** The error with which the balancer could not be created. */
  #broken: unknown;
  readonly #waiters = new Set<() => void>();

  constructor(target: experimental.GrpcUri, listener: experimental.ResolverListener, channelOptions: ChannelOptions) {
    const hidden = channelOptions[HiddenOptions.key] as HiddenOptions | undefined;
    const options = hidden?.options ?? resolveGrpcOptions();
    // An invalid target string fails here, in the constructor of the client.
    if (options.balancing.resolver === undefined) checkBalancingOptions({ resolver: target.path });
    this.service = target.path;
    this.options = options;
    this.args = subchannelArgs(channelOptions);
    this.#listener = listener;
    this.#traced = tracedChannel(target.path, options);
    this.#serviceConfig = mergeServiceConfig(channelOptions['grpc.service_config'], target.scheme as string);
    if (hidden?.isShared === false) hidden.state = this;
    options.onBalancer?.(this.#inspected());
  }

  static getDefaultAuthority(target: experimental.GrpcUri): string {
    return authorityOf(target.path);
  }

  /** The channel stops being idle, or its policy has a problem, which the policy handles itself. */
  updateResolution(): void {
    if (this.#phase === 'awake') return;
    this.#phase = 'awake';
    // The result is delivered later, because the contract of gRPC's resolvers forbids a synchronous report.
    queueMicrotask(() => {
      if (this.#phase !== 'awake') return;
      const { statusOrFromValue } = experimental;
      const parts = resolutionWith(this, { [stateKey]: this });
      this.#listener(statusOrFromValue([]), parts, statusOrFromValue(this.#serviceConfig), '');
    });
  }

  /** The channel goes idle or closes. */
  destroy(): void {
    this.#phase = 'asleep';
    this.#resume();
  }

  invoke(path: string, metadata?: Metadata): CallConfig {
    let method = this.#methods.get(path);
    if (method === undefined) {
      method = new Method(path, this.#serviceConfig);
      if (this.#methods.size < MAX_METHODS) this.#methods.set(path, method);
    }
    const call = new BalancedCall(method);
    if (isTraced()) call.trace = traceOfCall(metadata, this.#traced, path);
    return {
      methodConfig: method.config,
      pickInformation: asPickInformation(call),
      status: status.OK,
      dynamicFilterFactories: [call],
    };
  }

  unref(): void {
    this.#methods.clear();
  }

  /** The channel's policy has created a balancer, which looks for endpoints from now on. */
  awoke(policy: RunningPolicy): void {
    this.#policy = policy;
    this.#resume();
  }

  /** The channel's policy could not create a balancer. */
  broke(error: unknown): void {
    this.#broken = error;
    this.#resume();
  }

  /** The channel went idle or was closed, so its balancer ends. */
  sleeps(policy: RunningPolicy): void {
    if (this.#policy !== policy) return;
    if (policy.balancer.snapshot().state !== 'starting') this.#wasReady = true;
    this.#policy = undefined;
  }

  async ready(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    checkKeys('ready', options, ['signal']);
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.closed) throw closedError(this.service);
    if (this.#policy === undefined && this.#wasReady) return;
    if (this.#policy === undefined) await this.#awake(signal);
    const policy = this.#policy;
    if (policy === undefined) throw this.#broken ?? closedError(this.service);
    const awake = this.#keepAwake();
    try {
      await policy.balancer.ready(options);
    } finally {
      awake.cancel();
    }
  }

  snapshot(): BalancerSnapshot {
    if (this.#policy !== undefined) return this.#policy.balancer.snapshot();
    return {
      resolver: this.service,
      state: this.closed ? 'closed' : 'idle',
      version: 0,
      staleForMs: 0,
      panicking: false,
      waiting: 0,
      retryBudget: 0,
      endpoints: [],
      counts: noCounts,
    };
  }

  async close(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    checkKeys('close', options, ['signal']);
    this.closed = true;
    this.#policy?.channelClosed();
    this.#resume();
    await this.#policy?.balancer.close(options);
  }

  #resume(): void {
    for (const resume of this.#waiters) resume();
    this.#waiters.clear();
  }

  /** Ends the channel's idle state, as a first call would. */
  #awake(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const resume = (): void => {
        offAbort(signal, aborted);
        resolve();
      };
      const aborted = (): void => {
        this.#waiters.delete(resume);
        reject(signal?.reason);
      };
      onAbort(signal, aborted);
      this.#waiters.add(resume);
      if (this.channel !== undefined) this.channel.getConnectivityState(true);
      // A channel that other code created may be closed without evenkeel knowing once it was idle, so the wait ends there.
      else if (this.#phase === 'asleep') this.#resume();
      else this.updateResolution();
    });
  }

  /** Keeps a channel that evenkeel created from going idle, which grpc-js does with a channel without calls, until `cancel` is called. */
  #keepAwake(): Pick<Timer, 'cancel'> {
    const { channel } = this;
    const { clock } = this.options;
    let timer: Timer | undefined;
    const stay = (): void => {
      channel?.getConnectivityState(true);
      timer = clock.timer(stay, AWAKE_MS);
    };
    if (channel !== undefined) stay();
    return { cancel: () => timer?.cancel() };
  }

  /** What the application gets to inspect a channel: its balancer, without the parts that belong to grpc-js. */
  #inspected(): ChannelBalancer {
    return {
      ready: (options) => this.ready(options),
      snapshot: () => this.snapshot(),
      close: (options) => this.close(options),
      [Symbol.asyncDispose]: () => this.close(),
    };
  }
}
