import { type Channel, type ChannelOptions, experimental } from '@grpc/grpc-js';
import { checkBalancingOptions } from '../kit/index.js';
import { ChannelPresence } from './channel-balancer.js';
import { isGrpcOption, type ResolvedGrpcOptions, resolveGrpcOptions } from './options.js';
import { type PolicyParts, partsKey } from './policy.js';
import { CallConfigs, mergeServiceConfig, type ServiceConfig } from './service-config.js';
import { authorityOf } from './target.js';
import { tracedChannel } from './traced-call.js';

/** What `channelOptions` adds to the options of grpc-js. */
export class HiddenOptions {
  /** The prefix keeps them out of the arguments of subchannels. */
  static readonly key: string = `${experimental.SUBCHANNEL_ARGS_EXCLUDE_KEY_PREFIX}.evenkeel`;
  readonly options: ResolvedGrpcOptions;
  /** Both are known if evenkeel created the channel. */
  channel: Channel | undefined;
  closed = false;

  constructor(options: ResolvedGrpcOptions) {
    this.options = options;
  }

  /** grpc-js prints channel options as JSON when it traces. */
  toJSON(): string {
    return 'evenkeel';
  }
}

/**
 * The resolver of a channel, for grpc-js; it lives as long as the channel. It resolves nothing: it gives the channel its policy, whose
 * balancer looks for endpoints from the first call on, and its method configuration.
 */
export class EvenkeelResolver implements experimental.Resolver {
  readonly #listener: experimental.ResolverListener;
  readonly #hidden: HiddenOptions | undefined;
  readonly #parts: PolicyParts;
  readonly #serviceConfig: ServiceConfig;
  #awake = false;
  #destroyed = false;

  constructor(target: experimental.GrpcUri, listener: experimental.ResolverListener, channelOptions: ChannelOptions) {
    this.#listener = listener;
    this.#hidden = channelOptions[HiddenOptions.key] as HiddenOptions | undefined;
    const options = this.#hidden?.options ?? resolveGrpcOptions();
    // An invalid target string fails here, in the constructor of the client.
    if (options.balancing.resolver === undefined) checkBalancingOptions({ resolver: target.path });
    this.#serviceConfig = mergeServiceConfig(channelOptions['grpc.service_config'], target.scheme as string);
    const presence = new ChannelPresence(target.path, {
      isClosed: () => this.#isClosed(),
      wake: () => this.#wake(),
    });
    this.#parts = { presence, options, args: subchannelArgs(channelOptions) };
    options.onBalancer?.(presence);
  }

  static getDefaultAuthority(target: experimental.GrpcUri): string {
    return authorityOf(target.path);
  }

  /** The channel stops being idle, or its policy has a problem, which the policy handles itself. */
  updateResolution(): void {
    if (this.#awake || this.#isClosed()) return;
    this.#awake = true;
    // Never synchronously (the contract of gRPC's resolvers).
    queueMicrotask(() => {
      if (this.#awake) this.#report();
    });
  }

  /** The channel goes idle or closes. */
  destroy(): void {
    this.#awake = false;
    this.#destroyed = true;
  }

  #report(): void {
    const { options, presence } = this.#parts;
    this.#listener(
      experimental.statusOrFromValue([]),
      {
        [partsKey]: this.#parts,
        [experimental.CHANNEL_ARGS_CONFIG_SELECTOR_KEY]: new CallConfigs(
          this.#serviceConfig,
          tracedChannel(presence.service, options),
        ),
      },
      experimental.statusOrFromValue(this.#serviceConfig),
      '',
    );
  }

  #wake(): boolean {
    const channel = this.#hidden?.channel;
    if (channel !== undefined) channel.getConnectivityState(true);
    // A channel created by other code is only known not to be closed before it first stopped.
    else if (this.#destroyed) return false;
    else this.updateResolution();
    return true;
  }

  #isClosed(): boolean {
    return this.#hidden?.closed === true;
  }
}

/** The options grpc-js's transport and credentials read; the same for equal channels, so that these share connections. */
function subchannelArgs(channelOptions: ChannelOptions): ChannelOptions {
  const { SUBCHANNEL_ARGS_EXCLUDE_KEY_PREFIX: hidden } = experimental;
  return Object.fromEntries(
    Object.entries(channelOptions).filter(([name]) => isGrpcOption(name) && !name.startsWith(hidden)),
  );
}
