import type { ClientRequest, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, globalAgent as httpsGlobalAgent } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { Balancer, Clock } from '../../index.js';
import { type AppOptions, appTable, type ResolvedAppOptions, resolveAppOptions, withTls } from '../http/app-options.js';
import { AppServices, type AppSnapshot } from '../http/app-services.js';
import { endWithoutSocket, type RequestOptions, type RequestTaker, takesRequests } from '../http/internals.js';
import { PendingRequest } from '../http/pending-request.js';
import {
  asError,
  checkedOption,
  type Filled,
  nodeHttp,
  type Option,
  type OptionTable,
  optionError,
  optionTable,
  ownProperties,
  pickNames,
} from '../kit/index.js';
import { type AgentOptions, agentOptionNames, openCore } from './agent.js';
import type { AgentCore, AgentCoreParts, ByName } from './agent-core.js';
import { configuresConnection, identityOf, tlsOf } from './request-identity.js';

/** Options for one Service of an app. They have no `fallbackAgent`, because a Service's agent gets no requests for other hosts. */
export type ServiceOptions = Omit<AgentOptions, 'fallbackAgent'>;

/** Options of `createAppAgents`. */
export interface AppAgentsOptions extends AppOptions<ServiceOptions> {
  /**
   * Where requests for other hosts go: an Agent as `http`, one as `https`. Destroying these stays up to the caller.
   * @defaultValue Node's global agents, as they are when `createAppAgents` is called
   */
  readonly fallbackAgents?:
    | { readonly http?: HttpAgent | undefined; readonly https?: HttpsAgent | undefined }
    | undefined;
}

type FallbackAgents = NonNullable<AppAgentsOptions['fallbackAgents']>;

const fallbackAgent = checkedOption<HttpAgent | undefined>(undefined, (name, value) => {
  if (takesRequests(value)) return value as unknown as HttpAgent;
  throw optionError(name, 'an Agent', value);
});

const fallbackTable = optionTable<Filled<FallbackAgents, 'http' | 'https'>>('fallbackAgents', {
  http: fallbackAgent,
  https: fallbackAgent as Option<HttpsAgent | undefined>,
});

export const appAgentsTable: OptionTable<(typeof appTable)['defaults'] & { readonly fallbackAgents: FallbackAgents }> =
  optionTable('options', {
    ...appTable.options,
    fallbackAgents: checkedOption(fallbackTable.defaults, (_name, value) => fallbackTable.resolve(value)),
  });

/** Agents for everything that an app sends through `node:http` and `node:https`. */
export interface AppAgents extends AsyncDisposable {
  /** The agent for requests to `http:` URLs: assign it to `http.globalAgent`, or pass it as the option `agent`. */
  readonly http: HttpAgent;
  /** The agent for requests to `https:` URLs: assign it to `https.globalAgent`, or pass it as the option `agent`. */
  readonly https: HttpsAgent;
  /** The balancers of the Services in use, by the origin with which each Service was first called. */
  readonly balancers: ReadonlyMap<string, Balancer<HttpAgent>>;
  /** Which Services are balanced, which hosts are not, and why. */
  snapshot(): AppSnapshot;
  /** Lets running requests to Services finish; later requests go to `fallbackAgents`. Resolves when the sockets to pods are closed. */
  close(): Promise<void>;
  /** Cuts running requests to Services; later requests go to `fallbackAgents`. Resolves when the sockets to pods are closed. */
  destroy(): Promise<void>;
}

/**
 * Creates agents for a whole app: requests to Kubernetes Services are spread over their pods, all others go to the agents that were there
 * before. DNS decides which hosts are Services, once per host, or the option `services` does. Host headers and TLS names stay those of the
 * request. A request with TLS options of its own is sent over connections that only requests with the same options share. A request that
 * says how to connect (`createConnection`, `lookup`, `localAddress`, `family`, `checkServerIdentity`, a Unix socket), or that is for a
 * proxy, is left alone.
 *
 * @throws EVENKEEL_OPTION for an invalid option.
 * @example const agents = createAppAgents(); http.globalAgent = agents.http; https.globalAgent = agents.https;
 * await axios.get('http://orders.shop:8080/v1/orders/42'); // one of the pods
 */
export function createAppAgents(options: AppAgentsOptions = {}): AppAgents {
  const own = ownProperties(options);
  const { http = nodeHttp.globalAgent, https = httpsGlobalAgent } = appAgentsTable.resolve(own).fallbackAgents;
  const router = openAppRouter(pickNames(own, appTable.names));
  return new RoutingAgents(router, http as HttpAgent & RequestTaker, https as HttpsAgent & RequestTaker);
}

/** Creates the router that decides for each request of an app where it goes. Throws EVENKEEL_OPTION. */
export function openAppRouter(
  routerOptions: AppOptions<ServiceOptions> &
    Pick<AgentCoreParts, 'errorOf'> &
    Pick<ResolvedAppOptions<ServiceOptions>, 'optionsFailed'>,
): AppRouter {
  const { errorOf, optionsFailed, ...options } = ownProperties(routerOptions);
  const resolved = resolveAppOptions(options, {
    names: agentOptionNames.filter((name) => name !== 'fallbackAgent'),
    tlsNames: ['tls'],
    plainNames: [],
    check: checkServiceOptions,
  });
  return new AppRouter({ ...resolved, optionsFailed }, errorOf);
}

/** Checks the options of one Service by opening and closing an agent core with them, which does nothing before its balancer is used. */
function checkServiceOptions(options: ServiceOptions): void {
  openCore(new URL('https://service.namespace'), options).destroy();
}

type Onward = (request: ClientRequest, options: RequestOptions) => void;

class RoutingAgents implements AppAgents {
  readonly http: HttpAgent;
  readonly https: HttpsAgent;
  readonly #router: AppRouter;

  constructor(router: AppRouter, http: RequestTaker, https: RequestTaker) {
    this.#router = router;
    this.http = this.#agentOf('http:', http);
    this.https = this.#agentOf('https:', https);
  }

  get balancers(): ReadonlyMap<string, Balancer<HttpAgent>> {
    return this.#router.services.balancers;
  }

  snapshot(): AppSnapshot {
    return this.#router.services.snapshot();
  }

  close(): Promise<void> {
    return this.#router.services.close();
  }

  destroy(): Promise<void> {
    return this.#router.services.destroy(null);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Creates an instance of Node's own Agent class, which requests and clients check for. */
  #agentOf(protocol: 'http:' | 'https:', fallback: RequestTaker): HttpsAgent {
    const agent = new (protocol === 'https:' ? HttpsAgent : nodeHttp.Agent)({ keepAlive: true });
    const onward: Onward = (request, options) => fallback.addRequest(request, options);
    Object.assign(agent, {
      addRequest: (request: ClientRequest, options: RequestOptions) =>
        this.#router.route(protocol, request, options, onward),
      destroy: () => void this.destroy(),
    });
    Object.defineProperties(agent, {
      sockets: { get: () => this.#router.socketsOf(protocol, 'sockets') },
      freeSockets: { get: () => this.#router.socketsOf(protocol, 'freeSockets') },
    });
    return agent as HttpsAgent;
  }
}

/** Decides for each request of an app whether it goes to a pod, or to the agent that got it before. */
export class AppRouter {
  readonly services: AppServices<AgentCore>;
  readonly #clock: Clock;
  readonly #optionsOf: (origin: URL) => ServiceOptions;
  readonly #errorOf: AgentCoreParts['errorOf'];

  constructor(options: ResolvedAppOptions<ServiceOptions>, errorOf: AgentCoreParts['errorOf']) {
    this.services = new AppServices(options);
    this.#clock = options.clock;
    this.#optionsOf = options.optionsOf;
    this.#errorOf = errorOf;
  }

  /** Sends a request to a pod of its Service, now or when DNS has answered, or lets `onward` send it. */
  route(protocol: string, request: ClientRequest, options: RequestOptions, onward: Onward): void {
    if (configuresConnection(protocol, request, options) || this.services.isClosed) {
      onward(request, options);
      return;
    }
    const tls = protocol === 'https:' ? tlsOf(options) : undefined;
    const identity = tls === undefined ? '' : identityOf(tls);
    const text = `${protocol}//${options.host}:${options.port}${identity}`;
    const service = this.services.known(text);
    if (service === undefined)
      this.#decide({ url: urlOf(protocol, options), text, tls, identity }, request, options, onward);
    else {
      service.uses++;
      service.client.acceptRequest(request, options);
    }
  }

  /** Decides where a request goes. `AppServices` remembers which hosts are Services. */
  #decide(target: Target, request: ClientRequest, options: RequestOptions, onward: Onward): void {
    // The request's caller gave it up before, for example by a signal that was already aborted.
    if (request.destroyed) {
      endWithoutSocket(request);
      return;
    }
    let verdict: boolean | Promise<boolean>;
    try {
      verdict = target.url !== undefined && this.services.isService(target.url);
    } catch (error) {
      endWithoutSocket(request, asError(error));
      return;
    }
    if (verdict === true) this.#balance(target, request, options, onward);
    else if (verdict === false) onward(request, options);
    else {
      const balance = (): void => this.#balance(target, request, options, onward);
      this.#await(verdict, request, balance, () => onward(request, options));
    }
  }

  /** Makes a request wait until it is known whether its host is a Service; its caller may give it up meanwhile. */
  #await(verdict: Promise<boolean>, request: ClientRequest, balance: () => void, onward: () => void): void {
    let waits = true;
    const leave = (): boolean => {
      if (!waits) return false;
      waits = false;
      pending.release();
      this.services.released();
      return true;
    };
    const pending = new PendingRequest(request, this.#clock, () => {
      if (leave()) endWithoutSocket(request);
    });
    this.services.waits();
    void verdict.then((isService) => {
      if (!leave()) return;
      if (isService && !this.services.isClosed) {
        balance();
        return;
      }
      // An Agent throws for options that it cannot use. The caller of `http.request` can no longer catch that.
      try {
        onward();
      } catch (error) {
        endWithoutSocket(request, asError(error));
      }
    });
  }

  #balance(target: Target, request: ClientRequest, options: RequestOptions, onward: Onward): void {
    const { url, text, tls, identity } = target;
    try {
      const open = (): AgentCore => openCore(url as URL, withTls(this.#optionsOf(url as URL), tls), this.#errorOf);
      const service = this.services.get(text, url as URL, open, identity);
      if (service === undefined) onward(request, options);
      else {
        service.uses++;
        service.client.acceptRequest(request, options);
      }
    } catch (error) {
      endWithoutSocket(request, asError(error));
    }
  }

  socketsOf(protocol: string, kind: 'sockets' | 'freeSockets'): ByName<unknown> {
    const byName: ByName<unknown> = {};
    for (const { origin, client } of this.services.all) {
      if (origin.protocol !== protocol) continue;
      for (const [name, sockets] of Object.entries(client.socketsOf(kind)))
        byName[name] = [...(byName[name] ?? []), ...sockets];
    }
    return byName;
  }
}

/** The host that a request is for, and the request's own TLS options. */
interface Target {
  /** The URL of the host; undefined if the host's name cannot be part of a URL. */
  readonly url: URL | undefined;
  /** The text by which the Service of the host is remembered. */
  readonly text: string;
  readonly tls: ConnectionOptions | undefined;
  readonly identity: string;
}

function urlOf(protocol: string, { host, port }: RequestOptions): URL | undefined {
  const name = host?.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
  const text = `${protocol}//${name}:${port}`;
  return name && URL.canParse(text) ? new URL(text) : undefined;
}
