import * as grpc from '@grpc/grpc-js';
import { type AppChannels, type AppChannelsOptions, openAppChannels } from '../adapter/grpc-js/app-channels.js';
import { discoveryOf, type EngineOptions, servicesRule } from './engine.js';

/** Balances channels of grpc-js. */
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
    // The namespace object of an import has the module's exports under names of its own; what `require` returns is its default export.
    grpc: (grpc as { readonly default?: unknown }).default ?? grpc,
  };
}
