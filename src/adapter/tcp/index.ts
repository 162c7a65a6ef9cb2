export type { ConnectionLeaving, PlacingOptions, RebalanceOptions } from '../kit/index.js';
export { createConnector } from './connector.js';
export type { ConnectOptions, Connector, ConnectorOptions } from './options.js';
