/**
 * Everything that Node's HTTP client and the libraries that mock it do not document and evenkeel uses. Each trick was seen in Node 20.19,
 * 22, 24 and 26; the tests run on all of them. Where an upstream issue is named, it asks for what would replace the trick; no issue was
 * found for the others.
 */
import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { inspect } from 'node:util';
import { nodeHttp } from '../kit/index.js';

/** An Agent as `http.request` uses it. Agents of other libraries have relied on this method since Node 0.12. */
export interface RequestTaker {
  /** The Agent gives the request a socket, by `request.onSocket`, now or later. */
  addRequest(request: ClientRequest, options: RequestOptions): void;
}

/** A request as far as an Agent sees it: what the Agent gives a socket to. */
export interface SocketTaker {
  /** Whether the request's socket carried another request before. The Agent sets it. */
  reusedSocket: boolean;
  onSocket(socket: Socket | null | undefined, error?: Error | null): void;
  once(event: 'close', listener: () => void): unknown;
}

/** The options `http.request` passes to an Agent: those it was given, completed. */
export type { RequestOptions };

/** Whether `value` can take requests. Without it, an object that is no Agent would be found out by the first request. */
export function takesRequests(value: unknown): value is RequestTaker {
  return typeof (value as Partial<RequestTaker> | null | undefined)?.addRequest === 'function';
}

/**
 * Throws for a Host header that is no text, as Node's own Agents do when they read it for the name of TLS. Without it, a list would be sent
 * as several headers.
 */
export function checkHost(request: ClientRequest, { servername }: RequestOptions & { servername?: string }): void {
  const host: unknown = request.getHeader('host');
  if (!host || typeof host === 'string' || servername || servername === '') return;
  const message = `The "options.headers.host" property must be of type string. Received ${inspect(host)}`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
}

/** What Node's own Agent does with a request, regardless of overrides in `agent`. Without it, each pod would need a socket pool of ours. */
export function addRequest(agent: Agent, request: SocketTaker, options: RequestOptions): void {
  (nodeHttp.Agent.prototype as unknown as RequestTaker).addRequest.call(agent, request as ClientRequest, options);
}

/**
 * Moves the options of an Agent to its prototype (https://github.com/nodejs/node/issues/60914 asks to document the field). `addRequest`
 * copies own options one by one for every request, which is most of its cost; inherited ones are not copied, and read the same.
 */
export function inheritOptions(agent: Agent): void {
  const own = agent as unknown as { options: object };
  own.options = Object.create(own.options) as object;
}

/**
 * Sets which URLs an Agent takes, and the port of those that name none. Without it, `http.request` refuses an Agent for `https:` URLs.
 * @param protocol `http:` or `https:`; undefined: both, so that a redirect may lead from one to the other.
 */
export function setProtocol(agent: Agent, protocol: string | undefined, defaultPort: number): void {
  Object.assign(agent, { protocol, defaultPort });
}

/**
 * The protocol of the URL for which `http.request` wants a connection. `https.request` says so by its default agent, `http.request` by none
 * (https://github.com/nodejs/node/issues/16328). Without it, an Agent for both could not tell them apart.
 */
export function protocolOf(agent: Agent, options: object): string | undefined {
  const { _defaultAgent: defaultAgent } = options as { readonly _defaultAgent?: unknown };
  return ((defaultAgent ?? agent) as { readonly protocol?: string }).protocol;
}

/**
 * Node's own list of an Agent's idle sockets by the name that `getName` returns, from old to new; the Agent takes the newest. Node's
 * documentation asks not to change it. Without that, an Agent would use sockets that were idle for too long, or have not rested.
 */
export function freeSocketsOf(agent: Agent, name: string): Socket[] | undefined {
  return agent.freeSockets[name] as Socket[] | undefined;
}

/** Runs `act` while the Agent sees none of the idle sockets of this name. Without it, they would go before a socket that was just opened. */
export function withoutFreeSockets(agent: Agent, name: string, act: () => void): void {
  const all = agent.freeSockets as Record<string, Socket[]>;
  const hidden = all[name];
  if (hidden !== undefined) delete all[name];
  act();
  if (hidden !== undefined) all[name] = hidden;
}

/**
 * The request that a socket carries, or has just carried when `keepSocketAlive` is called. Without it, an Agent would not know how long the
 * pod keeps the connection, nor whether it was a reused one.
 */
export function requestOn(socket: Duplex): ClientRequest | undefined {
  return (socket as Duplex & { readonly _httpMessage?: ClientRequest | null })._httpMessage ?? undefined;
}

/**
 * Ends a request that has no socket: it emits the error, or the reason its caller destroyed it with, then `close`. `destroy` alone would
 * leave it hanging forever.
 */
export function endWithoutSocket(request: ClientRequest, error?: Error): void {
  (request.onSocket as unknown as (socket: null, error: Error | undefined) => void).call(request, null, error);
}

/**
 * The response to a request; undefined until its headers have arrived. A listener for `response` would keep Node from discarding one that
 * nobody reads.
 */
export function responseOf(request: ClientRequest): IncomingMessage | undefined {
  return (request as { readonly res?: IncomingMessage | null }).res ?? undefined;
}

/** Replaces a method of an object. Call the result to undo that, unless somebody else has replaced it since. */
export function replace<T extends object, K extends keyof T>(object: T, name: K, method: T[K]): () => void {
  const before = Object.getOwnPropertyDescriptor(object, name);
  object[name] = method;
  return () => {
    if (object[name] !== method) return;
    if (before === undefined) delete object[name];
    else Object.defineProperty(object, name, before);
  };
}

/** The fields of a request in which Node keeps its time limit. */
interface Limited {
  /** The request's time limit in ms; it applies to the socket that the request gets. */
  timeout?: number | undefined;
  /** The timeout listener that Node has added to the request's socket, or will add; if it is set, Node adds no other. */
  timeoutCb?: (() => void) | null;
}

const noTimeout = (): void => {};

/** The time limit of a request that has no socket, in ms; 0 = none. Without it, the time for a pod and a connection would not count. */
export function timeLimitOf(request: ClientRequest): number {
  return (request as Limited).timeout ?? 0;
}

/** Runs `act`, during which Node adds no listener for the end of a request's time to the socket that it will get. */
export function withoutTimeLimit(request: ClientRequest, act: () => void): void {
  const limited = request as Limited;
  const before = limited.timeoutCb ?? null;
  limited.timeoutCb = noTimeout;
  try {
    act();
  } finally {
    limited.timeoutCb = before;
  }
}

/**
 * Sets the time limit that applies to the socket a request is about to get, in ms; 0 = none. `isOver`: the caller was told that the time is
 * over, which Node would do once more.
 */
export function setTimeLimit(request: ClientRequest, limitMs: number, isOver: boolean): void {
  const limited = request as Limited;
  if (isOver) limited.timeoutCb = noTimeout;
  else if (limitMs > 0) limited.timeout = limitMs;
  else if (limited.timeout !== undefined) limited.timeout = undefined;
}

/** nock 15 and msw 3 both use `@mswjs/interceptors` from 0.42 on, which keeps its interceptors in a global. */
interface Mocking {
  readonly __MSW_INTERCEPTORS_REGISTRY?: ReadonlyMap<symbol, { readonly readyState?: unknown }>;
}
const socketInterceptor = Symbol.for('socket-interceptor');

/** The global object, which holds the registry of interceptors once nock or msw is loaded. */
const mocking: Mocking = globalThis as Mocking;

/**
 * Whether a library mocks HTTP in this process by intercepting sockets. It identifies a request by the host and port its socket was
 * opened to, and does not see sockets that are older than the mock. With our connections to pods it would match nothing, and the pods
 * would get the request. Called for every request, because mocks come and go.
 */
export function socketsAreMocked(): boolean {
  const registry = mocking.__MSW_INTERCEPTORS_REGISTRY;
  return registry !== undefined && registry.get(socketInterceptor)?.readyState === 'ACTIVE';
}
