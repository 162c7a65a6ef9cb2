// First: what follows imports undici.
import './check-version.js';

export { type HedgeOptions, hedgeDefaults } from '../http/hedging.js';
export {
  type PrefixKey,
  type PrefixKeyOptions,
  type PromptKeyOptions,
  promptDefaults,
  promptKey,
} from '../http/key.js';
export { createDispatcher, type ServiceDispatcher } from './dispatcher.js';
export { createFetch, type ServiceFetch } from './fetch.js';
export {
  type CallOptions,
  cookieKey,
  type DispatcherOptions,
  headerKey,
  prefixKey,
  type RequestKey,
  type UndiciConnectionOptions,
  type WebSocketLimits,
  type WebSocketOptions,
  webSocketDefaults,
} from './options.js';
export {
  createServiceAgent,
  type ServiceAgent,
  type ServiceInterceptor,
  serviceInterceptor,
} from './service-agent/service-agent.js';
export {
  type ServiceAgentOptions,
  type ServiceInterceptorOptions,
  type ServiceOptions,
  serviceAgentDefaults,
} from './service-agent/service-options.js';
export type { BalancedServiceSnapshot, ServiceAgentSnapshot } from './service-agent/service-router.js';
export {
  type DispatcherStats,
  type UndiciTransportOptions,
  undiciTransport,
} from './transport.js';
