// The version check is imported first, because the imports that follow load undici.
import './check-version.js';

export type { AppOptions } from '../http/app-options.js';
export type { AppSnapshot, BalancedServiceSnapshot } from '../http/app-services.js';
export type { HedgeOptions } from '../http/hedging.js';
export {
  type AppAgent,
  type AppInterceptor,
  appInterceptor,
  createAppAgent,
} from './app-agent/app-agent.js';
export type {
  AppAgentOptions,
  AppInterceptorOptions,
  ServiceOptions,
} from './app-agent/app-options.js';
export { createDispatcher, type ServiceDispatcher } from './dispatcher.js';
export { createFetch, type ServiceFetch } from './fetch.js';
export type {
  CallOptions,
  DispatcherOptions,
  RequestKey,
  UndiciConnectionOptions,
  WebSocketLimits,
  WebSocketOptions,
} from './options.js';
export {
  type DispatcherStats,
  type UndiciTransportOptions,
  undiciTransport,
} from './transport.js';
