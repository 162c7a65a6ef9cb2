export type { ConnectionLeaving, PlacingOptions, RebalanceOptions } from '../kit/index.js';
export type { ServiceWebSockets, WebSocketsOptions } from './options.js';
export { createWebSockets } from './web-sockets.js';
