import { ChannelCredentials, type ClientOptions, experimental } from '@grpc/grpc-js';
import { EvenkeelError } from '../../index.js';
import { checkService, serviceOf } from './address.js';
import { BalancedChannel, ChannelState, HiddenOptions } from './channel.js';
import { type GrpcOptions, isGrpcOption, resolveGrpcOptions } from './options.js';
import { EvenkeelPolicy } from './policy.js';

/**
 * The target string of a Service, for the address of any client or channel of grpc-js.
 *
 * @param service `name.namespace:port`, or another target string of evenkeel. It stays `:authority` and the name TLS checks,
 * regardless of the pod.
 * @throws EVENKEEL_OPTION for anything that cannot name a Service.
 * @example new OrdersClient(serviceTarget('orders.shop:50051'), credentials.createInsecure(), serviceChannelOptions());
 */
export function serviceTarget(service: string): string {
  return `${registeredName()}:${checkService(service)}`;
}

/**
 * The options of a client or channel for a Service: how to choose among pods, together with any of grpc-js's own (`grpc.…`,
 * `interceptors` …). One result may serve several channels; each has its own balancer. A client's address is the Service with or
 * without `serviceTarget`: `orders.shop:50051`, `dns:///orders.shop:50051`. Clients for other addresses (an IP address, `unix:`, `xds:`)
 * are grpc-js's own, not balanced.
 *
 * @throws EVENKEEL_OPTION for invalid options, and when a client is created from a copy of grpc-js other than the one evenkeel
 * uses.
 * @example const options = serviceChannelOptions({ picker: leastLoaded(), 'grpc.keepalive_time_ms': 30_000 });
 */
export function serviceChannelOptions(options: GrpcOptions = {}): ClientOptions {
  registeredName();
  const resolved = resolveGrpcOptions(options);
  const grpcOptions = Object.fromEntries(Object.entries(options).filter(([name]) => isGrpcOption(name)));
  return {
    // With a proxy in the environment, grpc-js would replace the target by the proxy, but pods are reached directly.
    'grpc.enable_http_proxy': 0,
    ...grpcOptions,
    [HiddenOptions.key]: new HiddenOptions(resolved, true),
    channelFactoryOverride: (address, credentials, channelOptions) => {
      if (!(credentials instanceof ChannelCredentials)) throw twoCopies();
      // The address has no scheme if a library builds it of host and port, so a plain address counts as a Service.
      const service = serviceOf(address);
      const balancedAddress = service === undefined ? address : serviceTarget(service);
      return new BalancedChannel(balancedAddress, credentials, channelOptions, resolved);
    },
  };
}

function twoCopies(): EvenkeelError {
  return new EvenkeelError(
    'EVENKEEL_OPTION',
    'this client comes from another copy of @grpc/grpc-js than the one evenkeel/grpc-js imports, where its target scheme ' +
      'is registered; "npm ls @grpc/grpc-js" shows both: make them one with "npm dedupe", or with an override of one version',
  );
}

let name: string | undefined;

/**
 * Returns the name of evenkeel's target scheme and policy in grpc-js's registries, which is registered on first use. A second copy of
 * evenkeel over one grpc-js takes a name of its own.
 */
export function registeredName(): string {
  if (name !== undefined) return name;
  name = 'evenkeel';
  for (let copy = 2; experimental.isLoadBalancerNameRegistered(name); copy++) name = `evenkeel${copy}`;
  const registered = name;
  class Config implements experimental.TypedLoadBalancingConfig {
    static createFromJson(): Config {
      return new Config();
    }

    getLoadBalancerName(): string {
      return registered;
    }

    toJsonObject(): object {
      return { [registered]: {} };
    }
  }
  experimental.registerLoadBalancerType(registered, EvenkeelPolicy, Config);
  experimental.registerResolver(registered, ChannelState);
  return registered;
}
