export { rsocketTransport } from './connection.js';
export { connectionSettings } from './options.js';
export { Stream } from './outcome.js';
export { createRSocket } from './rsocket.js';
