import * as grpc from '@grpc/grpc-js';
import { type AppChannels, type AppChannelsOptions, openAppChannels } from '../adapter/grpc-js/app-channels.js';
import { discoveryOf, type EngineOptions, servicesRule } from './engine.js';

/** Balances the channels of grpc-js that an app creates. */
export interface GrpcEngine extends AppChannels {
  /** The copy of grpc-js whose channels this engine can balance. */
  readonly grpc: unknown;
}

/** @throws EVENKEEL_OPTION for invalid options in `EVENKEEL_CONFIG`. */
export function createEngine(options: EngineOptions): GrpcEngine {
  const channels = openAppChannels({
    services: servicesRule(options),
    options: options.config.grpc as AppChannelsOptions['options'],
    discovery: discoveryOf(options),
  });
  return {
    ...channels,
    // The object that `require` returns is the default export of what `import` returns.
    grpc: (grpc as { readonly default?: unknown }).default ?? grpc,
  };
}
