import { type AppChannels, type AppChannelsOptions, openAppChannels } from '../adapter/grpc-js/app-channels.js';
import { discoveryOf, type EngineOptions, serviceOptionsOf, servicesRule } from './engine.js';

/**
 * Balances the channels that an app creates with one copy of grpc-js.
 *
 * @throws EVENKEEL_OPTION for invalid options in `EVENKEEL_CONFIG`.
 */
export function createEngine(options: EngineOptions): AppChannels {
  return openAppChannels({
    services: servicesRule(options),
    options: serviceOptionsOf(options.config.grpc, options.giveUp, {}) as AppChannelsOptions['options'],
    discovery: discoveryOf(options),
  });
}
