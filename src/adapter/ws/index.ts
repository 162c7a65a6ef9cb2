// Imported first, because it explains what is wrong with a ws that cannot even be loaded.
import './check-version.js';

export type { ConnectionLeaving, PlacingOptions, RebalanceOptions } from '../kit/index.js';
export type { ServiceWebSockets, WebSocketsOptions } from './options.js';
export { createWebSockets } from './web-sockets.js';
