import type { ClientRequest, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import {
  type Balancer,
  type BalancingOptions,
  createBalancer,
  EvenkeelError,
  type PrefixKey,
  type Priority,
  type RetryOptions,
  systemClock,
} from '../../index.js';
import { type RequestOptions, type RequestTaker, takesRequests } from '../http/internals.js';
import { checkClusterDomain, originMatcher, resolverOf, serviceOrigin } from '../http/origin.js';
import { type DeadlineOf, deadlineOption } from '../http/request-deadline.js';
import {
  type AskForReports,
  balancingTable,
  checkAskForReports,
  checkedOption,
  checkFunction,
  checkKeys,
  type Filled,
  functionOption,
  nodeHttp,
  type OptionTable,
  optionError,
  optionTable,
  ownProperties,
  type PropagateOptions,
  Propagation,
  pickerOf,
  pickNames,
  poolDefaults,
} from '../kit/index.js';
import { AgentCore, type AgentCoreParts } from './agent-core.js';
import { Fallback } from './fallback.js';
import { type NodeHttpConnectionOptions, nodeHttpConnectionTable, PodTransport } from './transport.js';

/** Options of an agent: how it finds and picks pods, and connects to them. All are optional. */
export interface AgentOptions extends Omit<BalancingOptions, 'retry'>, NodeHttpConnectionOptions {
  /**
   * Where requests for any other origin go (redirects, a client shared by several hosts). Destroying this agent stays up to the caller.
   * @defaultValue a keep-alive Agent of its own, created on first use
   */
  readonly fallbackAgent?: HttpAgent | undefined;
  /**
   * Returns the key for hash pickers: requests with the same key go to the same pod. `headerKey('x-user')`, `cookieKey('session')`,
   * `prefixKey({ header })`, which also brings the picker it is meant for, or a function called for every request. @defaultValue none
   * @see docs/reference/pickers.md#keys-of-requests
   */
  readonly key?: RequestKey | undefined;
  /**
   * Returns a request's priority: which requests are served first when several wait for a pod, and with a `limit` which are rejected first.
   * Called for every request.
   * @defaultValue the priority of the request being served (`propagate.context`), else 'default'
   * @see docs/guide/overload.md#priorities
   */
  readonly priority?: ((request: ClientRequest) => Priority | undefined) | undefined;
  /**
   * How long a request may take as a whole, in ms: waiting for a pod and a connection, and the complete response. After that it fails with
   * EVENKEEL_DEADLINE. A function returns the limit of each request; undefined = no limit.
   * @defaultValue no limit: the caller's own timeout decides
   */
  readonly deadlineMs?: number | DeadlineOf<ClientRequest> | undefined;
  /** The cluster's domain, to recognize full Service names. @defaultValue what resolv.conf says, else 'cluster.local' */
  readonly clusterDomain?: string | undefined;
  /**
   * Which requests ask their pod how busy it is, with the header `endpoint-load-metrics-format: TEXT`. true: requests to pods that have
   * said that they report (`evenkeel/server`). 'always': every request. false: none. @defaultValue true
   * @see docs/guide/server.md#what-clients-do-with-it
   */
  readonly askForReports?: AskForReports | undefined;
  /**
   * What is sent along with a request: the deadline it has when it begins, and its priority. @defaultValue {}, see `PropagateOptions`
   * @see docs/guide/overload.md#passing-on-deadlines-and-priorities
   */
  readonly propagate?: PropagateOptions | undefined;
  /**
   * How often a request that got no connection is tried on another pod, and what that may cost. Once a request has a connection, it is
   * Node's, which sends it once. @defaultValue {}, see `RetryOptions`
   * @see docs/guide/node-http.md#what-is-retried
   */
  readonly retry?: Pick<RetryOptions, 'maxAttempts' | 'budget'> | undefined;
}

/** What an agent of one Service has in addition to Node's Agents. */
export interface ServiceAgent extends AsyncDisposable {
  /** The agent's balancer: `ready()` waits for a pod, `snapshot()` returns the current state. */
  readonly balancer: Balancer<HttpAgent>;
  /** Accepts no new requests; running ones finish, for at most `pool.drainTimeoutMs`. Resolves when every socket is closed. */
  close(): Promise<void>;
  /** Ends every socket immediately, as on Node's Agents. The agent accepts no requests afterwards. */
  destroy(): void;
}

/** An `http.Agent` that spreads the requests of one Service over its pods. */
export interface HttpServiceAgent extends HttpAgent, ServiceAgent {
  destroy(): void;
}

/** An `https.Agent` that spreads the requests of one Service over its pods. */
export interface HttpsServiceAgent extends HttpsAgent, ServiceAgent {
  destroy(): void;
}

/**
 * Creates an agent for one Service, for `http.request` and every client built on it: axios, got, node-fetch, superagent, ws. It
 * finds the pods, keeps connections to them and picks one for every request. Host header and TLS name stay the Service's.
 * Requests for another origin never reach a pod. Must be closed.
 *
 * @param target `http://name:port` gives an `http.Agent`, `https://name:port` an `https.Agent`. An IP address or `localhost` is
 * one fixed endpoint.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example const orders = createAgent('http://orders.shop:8080'); const client = axios.create({ baseURL:
 * 'http://orders.shop:8080', httpAgent: orders, proxy: false }); await client.get('/v1/orders/42'); await orders.close();
 */
export function createAgent(target: `https://${string}`, options?: AgentOptions): HttpsServiceAgent;
export function createAgent(target: string | URL, options?: AgentOptions): HttpServiceAgent;
export function createAgent(target: string | URL, options: AgentOptions = {}): HttpServiceAgent {
  const origin = serviceOrigin('target', target);
  return agentOf(origin.protocol, openCore(origin, options));
}

type AgentSettings = Filled<
  Pick<AgentOptions, 'key' | 'priority' | 'clusterDomain' | 'askForReports'>,
  'key' | 'priority' | 'clusterDomain'
> & {
  readonly fallbackAgent: (HttpAgent & RequestTaker) | undefined;
  readonly deadlineMs: DeadlineOf<ClientRequest> | undefined;
  readonly propagate: Propagation;
};

export const agentTable: OptionTable<AgentSettings> = optionTable('options', {
  fallbackAgent: checkedOption<AgentSettings['fallbackAgent']>(undefined, (name, value) => {
    if (takesRequests(value)) return value as HttpAgent & RequestTaker;
    throw optionError(name, 'an Agent', value);
  }),
  key: checkedOption<RequestKey | undefined>(undefined, (name, value) => {
    checkFunction(name, value);
    if ((value as Partial<PrefixKey>).readsHeader !== false) return value as RequestKey;
    throw optionError(name, 'prefixKey({ header }): node:http knows no body yet', 'prefixKey() without a header');
  }),
  priority: functionOption<NonNullable<AgentOptions['priority']>>(),
  deadlineMs: deadlineOption<ClientRequest>(),
  clusterDomain: checkedOption<string | undefined>(undefined, (_name, value) => checkClusterDomain(value)),
  askForReports: checkedOption<AskForReports>(true, checkAskForReports),
  propagate: checkedOption(new Propagation(undefined), (_name, value) => new Propagation(value as PropagateOptions)),
});

/** The names of all options of an agent. */
export const agentOptionNames: readonly (keyof AgentOptions)[] = Object.freeze([
  ...balancingTable.names,
  ...nodeHttpConnectionTable.names,
  ...agentTable.names,
]);

/** Creates the part of an agent that sends the requests of one Service, without Node's Agent around it. Throws EVENKEEL_OPTION. */
export function openCore(origin: URL, options: AgentOptions, errorOf?: AgentCoreParts['errorOf']): AgentCore {
  const own = ownProperties(options);
  refuseRepeats(own);
  checkKeys('options', own, agentOptionNames);
  const { clock = systemClock, rng } = own;
  const pool = ownProperties(own.pool);
  const { fallbackAgent, key, priority, deadlineMs, clusterDomain, askForReports, propagate } =
    agentTable.resolveOwn(own);
  const matcher = originMatcher(origin, clusterDomain);
  const transport = new PodTransport({
    ...pickNames(own, nodeHttpConnectionTable.names),
    origin,
    clock,
    ...(rng && { rng }),
    ...(pool?.connectTimeoutMs !== undefined && { connectTimeoutMs: pool.connectTimeoutMs }),
  });
  const { protocol } = origin;
  const drainTimeoutMs = pool?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs;
  return new AgentCore({
    origin,
    matcher,
    fallback: new Fallback({ fallbackAgent, protocol, clock, drainTimeoutMs }),
    rules: { key, priority, deadlineMs },
    propagation: propagate,
    clock,
    drainTimeoutMs,
    askForReports,
    transport,
    errorOf,
    balancer: createBalancer({
      picker: pickerOf(key),
      ...pickNames(own, balancingTable.names),
      resolver: own.resolver === undefined ? resolverOf(origin) : own.resolver,
      transport,
    }),
  });
}

/** Refuses options for requests that are sent more than once, because Node sends a request that has its connection, and only once. */
function refuseRepeats(options: AgentOptions): void {
  const { hedge, retry } = ownProperties(options ?? {}) as { readonly hedge?: unknown; readonly retry?: RetryOptions };
  const { statuses, methods, when } = ownProperties(retry ?? {});
  const repeats = { hedge, 'retry.statuses': statuses, 'retry.methods': methods, 'retry.when': when };
  for (const [name, value] of Object.entries(repeats)) {
    if (value === undefined) continue;
    const instead =
      'repeat requests in your client (axios-retry, the `retry` of got), or use createFetch of evenkeel/undici';
    throw new EvenkeelError(
      'EVENKEEL_OPTION',
      `options has no option "${name}", because Node sends a request once: ${instead}`,
    );
  }
}

/** Creates an instance of Node's own Agent class, which requests and clients check for, and which delegates to `core`. */
function agentOf(protocol: string, core: AgentCore): HttpServiceAgent {
  // Without `keepAlive` Node would ask every pod to close the connection after each response.
  const agent = new (protocol === 'https:' ? HttpsAgent : nodeHttp.Agent)({ keepAlive: true });
  const connect = agent.createConnection.bind(agent);
  const methods = {
    createConnection: (options: RequestOptions, created: Parameters<typeof connect>[1]) =>
      core.connectToPod(options) ?? connect(options, created),
    addRequest: core.addRequest.bind(core),
    close: core.close.bind(core),
    destroy: core.destroy.bind(core),
    [Symbol.asyncDispose]: core.close.bind(core),
  };
  Object.assign(agent, methods);
  Object.defineProperties(agent, {
    balancer: { value: core.balancer, enumerable: true },
    sockets: { get: () => core.socketsOf('sockets') },
    freeSockets: { get: () => core.socketsOf('freeSockets') },
    requests: { get: () => core.requests },
  });
  return agent as HttpServiceAgent;
}

/** Returns the key for hash pickers from a request. */
export type RequestKey = (request: ClientRequest) => string | null | undefined;
