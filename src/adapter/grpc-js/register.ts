import { experimental } from '@grpc/grpc-js';
import { EvenkeelPolicy } from './policy.js';
import { EvenkeelResolver } from './resolver.js';

let name: string | undefined;

/**
 * The name of our target scheme and policy in grpc-js's registries, entered on first use. A second copy of evenkeel over
 * the same grpc-js takes a name of its own.
 */
export function registeredName(): string {
  if (name !== undefined) return name;
  name = 'evenkeel';
  for (let copy = 2; experimental.isLoadBalancerNameRegistered(name); copy++) name = `evenkeel${copy}`;
  const own = name;
  class Config implements experimental.TypedLoadBalancingConfig {
    static createFromJson(): Config {
      return new Config();
    }

    getLoadBalancerName(): string {
      return own;
    }

    toJsonObject(): object {
      return { [own]: {} };
    }
  }
  experimental.registerLoadBalancerType(own, EvenkeelPolicy, Config);
  experimental.registerResolver(own, EvenkeelResolver);
  return own;
}
