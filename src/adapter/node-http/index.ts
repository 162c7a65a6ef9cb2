export {
  type AgentOptions,
  type BalancedAgent,
  createAgent,
  type HttpServiceAgent,
  type HttpsServiceAgent,
} from './agent.js';
export { cookieKey, headerKey, type RequestKey } from './key.js';
export { type NodeHttpConnectionOptions, type NodeHttpTransportOptions, nodeHttpTransport } from './transport.js';
