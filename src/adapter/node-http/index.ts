export {
  type PrefixKey,
  type PromptKeyOptions,
  promptDefaults,
  promptKey,
} from '../http/key.js';
export {
  type AgentOptions,
  cookieKey,
  createAgent,
  type HttpServiceAgent,
  type HttpsServiceAgent,
  headerKey,
  prefixKey,
  type RequestKey,
  type ServiceAgent,
} from './agent.js';
export { type NodeHttpConnectionOptions, type NodeHttpTransportOptions, nodeHttpTransport } from './transport.js';
