export type { ConnectionLeaving, PlacingOptions, RebalanceOptions } from '../kit/index.js';
export { createBrokers } from './brokers.js';
export type { Brokers, BrokersOptions, ConnectOptions } from './options.js';
