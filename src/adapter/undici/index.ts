// First: what follows imports undici.
import './check-version.js';

export type { CallOptions } from './call-options.js';
export { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from './dispatcher.js';
export { createFetch, type ServiceFetch } from './fetch.js';
export { type HedgeOptions, hedgeDefaults } from './hedging.js';
export { cookieKey, headerKey, type RequestKey } from './key.js';
export { createServiceAgent, type ServiceAgent } from './service-agent/service-agent.js';
export { type ServiceInterceptor, serviceInterceptor } from './service-agent/service-interceptor.js';
export {
  type ServiceAgentOptions,
  type ServiceInterceptorOptions,
  type ServiceOptions,
  serviceAgentDefaults,
} from './service-agent/service-options.js';
export type { BalancedServiceSnapshot, ServiceAgentSnapshot } from './service-agent/service-router.js';
export type { DispatcherStats } from './stats.js';
export {
  type UndiciConnectionOptions,
  type UndiciTransportOptions,
  undiciTransport,
} from './transport.js';
export { type WebSocketLimits, type WebSocketOptions, webSocketDefaults } from './web-socket.js';
