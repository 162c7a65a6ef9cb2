export type { RSocketOptions } from './options.js';
export {
  type CallOptions,
  createRSocket,
  type RequestResponseOptions,
  type ServiceRSocket,
} from './rsocket.js';
