export type { AppOptions } from '../http/app-options.js';
export type { AppSnapshot, BalancedServiceSnapshot } from '../http/app-services.js';
export {
  type AgentOptions,
  createAgent,
  type HttpServiceAgent,
  type HttpsServiceAgent,
  type RequestKey,
  type ServiceAgent,
} from './agent.js';
export { type AppAgents, type AppAgentsOptions, createAppAgents, type ServiceOptions } from './app-agents.js';
export { type NodeHttpConnectionOptions, type NodeHttpTransportOptions, nodeHttpTransport } from './transport.js';
