export {
  type PrefixKey,
  type PromptKeyOptions,
  promptDefaults,
  promptKey,
} from '../http/prompt.js';
export {
  type AgentOptions,
  type BalancedAgent,
  createAgent,
  type HttpServiceAgent,
  type HttpsServiceAgent,
} from './agent.js';
export { cookieKey, headerKey, prefixKey, type RequestKey } from './key.js';
export { type NodeHttpConnectionOptions, type NodeHttpTransportOptions, nodeHttpTransport } from './transport.js';
