import * as grpc from '@grpc/grpc-js';
import { serviceChannelOptions } from '../adapter/grpc-js/index.js';
import type { GrpcOptions } from '../adapter/grpc-js/options.js';
import { dns, firstAvailable, resolverFrom } from '../index.js';
import type { EngineOptions } from './engine.js';

/** Balances channels of grpc-js. */
export interface GrpcEngine {
  /** The copy of grpc-js that it can do that for. */
  readonly grpc: unknown;
  /** What a client or channel for `address` adds to its options. */
  optionsFor(address: string): grpc.ClientOptions;
}

/** @throws EVENKEEL_OPTION for invalid options in `EVENKEEL_CONFIG`. */
export function createEngine({ config }: EngineOptions): GrpcEngine {
  const given = (config.grpc ?? {}) as GrpcOptions;
  serviceChannelOptions(given);
  return {
    // A namespace has the module's exports of its own; what `require` returns is its default export.
    grpc: (grpc as { readonly default?: unknown }).default ?? grpc,
    optionsFor(address) {
      const service = address.replace(/^dns:(\/\/[^/]*\/)?/, '');
      const [host = '', port = ''] = service.split(':');
      // Nobody has asked DNS whether it is a Service: if it is none, it is the host of that name.
      const resolver = firstAvailable([
        resolverFrom(service, config.discovery ?? {}),
        dns({ host: host.endsWith('.') ? host : `${host}.`, port: Number(port), ...config.discovery?.dns }),
      ]);
      return serviceChannelOptions({ resolver, ...given });
    },
  };
}
