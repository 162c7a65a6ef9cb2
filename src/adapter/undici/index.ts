export { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from './dispatcher.js';
export { createFetch, type ServiceFetch } from './fetch.js';
export {
  type UndiciConnectionOptions,
  type UndiciTransportOptions,
  undiciTransport,
} from './transport.js';
