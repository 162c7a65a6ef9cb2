import { type ChannelOptions, type ClientOptions, experimental } from '@grpc/grpc-js';
import { type Resolver, resolverFrom, systemClock, type TargetOptions } from '../../index.js';
import { isPromise, optionError, ServiceHosts, type ServiceRule } from '../kit/index.js';
import { authorityOf } from './address.js';
import { BalancedChannel, ChannelState } from './channel.js';
import { hiddenName } from './internals.js';
import { type GrpcOptions, resolveGrpcOptions } from './options.js';
import { registeredName, serviceChannelOptions } from './target.js';

/** Options for the channels of a whole app. */
export interface AppChannelsOptions {
  /** Which hosts are Services. @defaultValue DNS decides */
  readonly services?: ServiceRule | undefined;
  /**
   * How calls are balanced: one object for all Services (then without `resolver`), or a function that is called for each client and channel
   * with its Service as a URL, `grpc://orders.shop:50051`; undefined means the defaults. @defaultValue {}
   */
  readonly options?: GrpcOptions | ((service: URL) => GrpcOptions | undefined) | undefined;
  /** How Services and their pods are found. @defaultValue from this pod's environment */
  readonly discovery?: TargetOptions | undefined;
}

/** The channels to all addresses that an app calls. */
export interface AppChannels {
  /**
   * Returns the options that a client or channel for `address` needs in addition to its own; the address is `host:port`, with or without
   * `dns:`. Undefined if it cannot name a Service, for example because of an invalid port. Throws EVENKEEL_OPTION for invalid options, and
   * what a function for them throws.
   */
  optionsFor(address: string): ClientOptions | undefined;
}

/** The target scheme of an app's channels, whether their host turns out to be a Service or not. */
const SCHEME = 'evenkeel-app';
/** The channel option in which the resolver of an app's channel finds the `ServiceHosts` that decide whether the host is a Service. */
const hostsKey = hiddenName('hosts');
/** How long DNS may take to say whether a host is a Service, in ms; after that the host counts as none. */
const LOOKUP_TIMEOUT_MS = 2_000;
const ADDRESS = /^(?:dns:)?(?:\/\/([^/]*)\/)?(.+)$/;

/**
 * Creates channels for any address of an app: calls to Services are balanced; other addresses are resolved, and their servers chosen, as
 * grpc-js does it, with what their DNS records and the app's own service config say. A channel decides when it first resolves its name. While
 * its host is no Service it asks again: a connection that holds gives grpc-js no reason to look the name up.
 *
 * @throws EVENKEEL_OPTION for invalid options, unless a function returns them.
 */
export function openAppChannels({ services, options, discovery }: AppChannelsOptions): AppChannels {
  const optionsOf = optionsByService(options);
  const hosts = new ServiceHosts({
    services,
    dns: discovery?.dns,
    lookupTimeoutMs: LOOKUP_TIMEOUT_MS,
    clock: systemClock,
  });
  experimental.registerResolver(SCHEME, AppResolver);
  return {
    optionsFor(address) {
      const [, server = '', service = ''] = ADDRESS.exec(address) ?? [];
      const discovered = resolverOf(service, discovery);
      if (discovered === undefined) return undefined;
      const serviceOptions = optionsOf(new URL(`grpc://${service}`));
      const { resolver = discovered } = serviceOptions;
      const resolved = resolveGrpcOptions({
        ...serviceOptions,
        resolver: typeof resolver === 'string' ? resolverFrom(resolver, discovery) : resolver,
      });
      return {
        ...serviceChannelOptions(serviceOptions),
        channelFactoryOverride: (_address, credentials, channelOptions) =>
          new BalancedChannel(
            `${SCHEME}://${server}/${service}`,
            credentials,
            { ...channelOptions, [hostsKey]: hosts },
            resolved,
          ),
      };
    },
  };
}

function optionsByService(options: AppChannelsOptions['options'] = {}): (service: URL) => GrpcOptions {
  if (typeof options === 'function') {
    return (service) => {
      const serviceOptions: unknown = options(service) ?? {};
      // A promise has no own keys, so it would be taken for empty options.
      if (isPromise(serviceOptions)) {
        // Nobody waits for it, and a rejection without a listener would end the process.
        void Promise.resolve(serviceOptions).catch(() => {});
        throw optionError('options()', 'options, not a promise of them', serviceOptions);
      }
      return serviceOptions as GrpcOptions;
    };
  }
  // Called only because it throws for invalid options.
  serviceChannelOptions(options);
  if (options.resolver !== undefined) {
    throw optionError('options.resolver', 'left out: it would send every Service to the same pods', options.resolver);
  }
  return () => options;
}

/** Returns the resolver for the Service that an address names; undefined if it names none. */
function resolverOf(service: string, discovery: TargetOptions | undefined): Resolver | undefined {
  try {
    return resolverFrom(service, discovery);
  } catch {
    return undefined;
  }
}

/** Resolves a name as that of a Service if it is one, otherwise as grpc-js does. */
class AppResolver implements experimental.Resolver {
  readonly #url: URL;
  readonly #hosts: ServiceHosts;
  readonly #service: ChannelState;
  readonly #host: experimental.Resolver;
  #isService = false;
  #isLookingUp = false;
  #isDestroyed = true;
  #stopWaiting: (() => void) | undefined;

  constructor(target: experimental.GrpcUri, listener: experimental.ResolverListener, channelOptions: ChannelOptions) {
    this.#url = new URL(`http://${target.path}`);
    this.#hosts = channelOptions[hostsKey] as ServiceHosts;
    this.#service = new ChannelState({ ...target, scheme: registeredName() }, listener, channelOptions);
    this.#host = experimental.createResolver({ ...target, scheme: 'dns' }, listener, channelOptions);
  }

  static getDefaultAuthority(target: experimental.GrpcUri): string {
    return authorityOf(target.path);
  }

  updateResolution(): void {
    this.#isDestroyed = false;
    if (this.#isService) this.#service.updateResolution();
    if (this.#isService || this.#isLookingUp) return;
    const verdict = this.#hosts.isService(this.#url);
    if (typeof verdict === 'boolean') {
      this.#resolve(verdict);
      return;
    }
    this.#isLookingUp = true;
    // The promise of `isService` never rejects.
    void verdict.then((isService) => {
      this.#isLookingUp = false;
      if (!this.#isDestroyed) this.#resolve(isService);
    });
  }

  destroy(): void {
    this.#isDestroyed = true;
    this.#stopWaiting?.();
    this.#service.destroy();
    this.#host.destroy();
  }

  /** Resolves the name. Once its host is known to be a Service, it stays one. */
  #resolve(isService: boolean): void {
    this.#stopWaiting?.();
    if (!isService) {
      this.#stopWaiting = this.#hosts.whenService(this.#url, () => this.#resolve(true));
      this.#host.updateResolution();
      return;
    }
    this.#isService = true;
    this.#host.destroy();
    this.#service.updateResolution();
  }
}
