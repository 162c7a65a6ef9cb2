export type { CallOptions, RequestResponseOptions, RSocketOptions, ServiceRSocket } from './options.js';
export { createRSocket } from './rsocket.js';
