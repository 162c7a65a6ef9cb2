/**
 * Every undocumented part of Node's HTTP client, and of the libraries that mock it, that evenkeel uses. Each was seen in Node 20.19, 22, 24
 * and 26; the tests run on all of them. Where an upstream issue is named, it asks for a documented replacement; no issue was found for the
 * other parts.
 */
import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { inspect } from 'node:util';
import { nodeHttp } from '../kit/index.js';

/** An Agent as `http.request` uses it. Agents of other libraries have relied on `addRequest` since Node 0.12. */
export interface RequestTaker {
  /** Takes a request, to which the Agent gives a socket by `request.onSocket`, now or later. */
  addRequest(request: ClientRequest, options: RequestOptions): void;
}

/** The part of a request that an Agent uses when it gives the request a socket. */
export interface SocketTaker {
  /** Whether the request's socket carried another request before. The Agent sets this. */
  reusedSocket: boolean;
  onSocket(socket: Socket | null | undefined, error?: Error | null): void;
  once(event: 'close', listener: () => void): unknown;
}

/** The options that `http.request` passes to an Agent: the caller's, completed by Node. */
export type { RequestOptions };

/** Whether `value` can take requests as an Agent. Without this, an object that is no Agent would only fail at the first request. */
export function takesRequests(value: unknown): value is RequestTaker {
  return typeof (value as Partial<RequestTaker> | null | undefined)?.addRequest === 'function';
}

/**
 * Throws for a Host header that is no text, as Node's own Agents do when they derive the TLS name from it. Without this, a list would be
 * sent as several headers.
 */
export function checkHost(request: ClientRequest, { servername }: RequestOptions & { servername?: string }): void {
  const host: unknown = request.getHeader('host');
  if (!host || typeof host === 'string' || servername || servername === '') return;
  const message = `The "options.headers.host" property must be of type string. Received ${inspect(host)}`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
}

/**
 * Does with a request what Node's own Agent does, regardless of overrides in `agent`. Without this, each pod would need a socket pool of
 * our own.
 */
export function addRequest(agent: Agent, request: SocketTaker, options: RequestOptions): void {
  (nodeHttp.Agent.prototype as unknown as RequestTaker).addRequest.call(agent, request as ClientRequest, options);
}

/**
 * Moves the options of an Agent to its prototype (https://github.com/nodejs/node/issues/60914 asks to document the field). `addRequest`
 * copies an Agent's own options one by one for every request, which is most of its cost; inherited options are not copied, and read the
 * same.
 */
export function inheritOptions(agent: Agent): void {
  const agentFields = agent as unknown as { options: object };
  agentFields.options = Object.create(agentFields.options) as object;
}

/**
 * Sets which URLs an Agent takes, and the port of URLs that name none. Without this, `http.request` refuses an Agent for `https:` URLs.
 * @param protocol `http:` or `https:`; undefined means both, so that a redirect may lead from one to the other.
 */
export function setProtocol(agent: Agent, protocol: string | undefined, defaultPort: number): void {
  Object.assign(agent, { protocol, defaultPort });
}

/**
 * The protocol of the URL for which `http.request` wants a connection. `https.request` passes a default agent, and `http.request` passes
 * none (https://github.com/nodejs/node/issues/16328). Without this, an Agent for both protocols could not tell them apart.
 */
export function protocolOf(agent: Agent, options: object): string | undefined {
  const { _defaultAgent: defaultAgent } = options as { readonly _defaultAgent?: unknown };
  return ((defaultAgent ?? agent) as { readonly protocol?: string }).protocol;
}

/**
 * Node's own list of an Agent's idle sockets for a name that `getName` returned, from old to new; the Agent takes the newest. Node's
 * documentation asks not to change it. Without changing it, an Agent would use sockets that were idle for too long, or have not rested.
 */
export function freeSocketsOf(agent: Agent, name: string): Socket[] | undefined {
  return agent.freeSockets[name] as Socket[] | undefined;
}

/**
 * Runs `act` while the Agent sees none of the idle sockets of this name. Without this, the Agent would use them before a socket that was
 * just opened.
 */
export function withoutFreeSockets(agent: Agent, name: string, act: () => void): void {
  const byName = agent.freeSockets as Record<string, Socket[]>;
  const hidden = byName[name];
  if (hidden !== undefined) delete byName[name];
  act();
  if (hidden !== undefined) byName[name] = hidden;
}

/**
 * The request that a socket carries, or has just carried when `keepSocketAlive` is called. Without this, an Agent would not know how long
 * the pod keeps the connection, nor whether the connection was reused.
 */
export function requestOn(socket: Duplex): ClientRequest | undefined {
  return (socket as Duplex & { readonly _httpMessage?: ClientRequest | null })._httpMessage ?? undefined;
}

/** The part of a socket's handle that changes its async context. */
interface ContextHandle {
  asyncReset?(resource: object): void;
}

/**
 * Makes the events of an open socket run in the current async context, as Node's Agent does with an idle socket that a request gets. Without
 * this, an error of the first request on a socket that was opened ahead, or for another request, would be emitted in another context.
 */
export function enterContext(socket: Socket): void {
  const { _handle: handle } = socket as Socket & { readonly _handle?: ContextHandle | null };
  handle?.asyncReset?.({});
}

/**
 * Ends a request that has no socket: the request emits `error`, or the reason with which its caller destroyed it, then `close`. `destroy`
 * alone would leave the request hanging forever.
 */
export function endWithoutSocket(request: ClientRequest, error?: Error): void {
  (request.onSocket as unknown as (socket: null, error: Error | undefined) => void).call(request, null, error);
}

/**
 * The response to a request; undefined until its headers have arrived. A listener for `response` would keep Node from discarding a response
 * that nobody reads.
 */
export function responseOf(request: ClientRequest): IncomingMessage | undefined {
  return (request as { readonly res?: IncomingMessage | null }).res ?? undefined;
}

/** Replaces a method of an object. Call the result to undo that, unless somebody else has replaced the method since. */
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
  /** The request's time limit in ms, which applies to the socket that the request gets. */
  timeout?: number | undefined;
  /** The timeout listener that Node has added to the request's socket, or will add; Node adds no other while this field is set. */
  timeoutCb?: (() => void) | null;
}

const noTimeout = (): void => {};

/** The time limit of a request that has no socket, in ms; 0 = none. Without this, the wait for a pod and a connection would not count. */
export function timeLimitOf(request: ClientRequest): number {
  return (request as Limited).timeout ?? 0;
}

/** Runs `act`, during which Node adds no timeout listener to the socket that the request will get. */
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
 * Sets the time limit for the socket that a request is about to get, in ms; 0 = none. `isOver` says that the caller was already notified of
 * the timeout, so that Node must not notify it again.
 */
export function setTimeLimit(request: ClientRequest, limitMs: number, isOver: boolean): void {
  const limited = request as Limited;
  if (isOver) limited.timeoutCb = noTimeout;
  else if (limitMs > 0) limited.timeout = limitMs;
  else if (limited.timeout !== undefined) limited.timeout = undefined;
}

/** The global in which `@mswjs/interceptors` from 0.42 on keeps its interceptors; nock 15 and msw 3 both use that package. */
interface Mocking {
  readonly __MSW_INTERCEPTORS_REGISTRY?: ReadonlyMap<symbol, { readonly readyState?: unknown }>;
}
const socketInterceptor = Symbol.for('socket-interceptor');

/** The global object, which holds the registry of interceptors once nock or msw is loaded. */
const mocking: Mocking = globalThis as Mocking;

/**
 * Whether a library mocks HTTP in this process by intercepting sockets. Such a library identifies a request by the host and port that its
 * socket was opened to, and does not see sockets that are older than the mock. With connections to pods it would match nothing, and the
 * pods would get the requests. Called for every request, because mocks come and go.
 */
export function socketsAreMocked(): boolean {
  const registry = mocking.__MSW_INTERCEPTORS_REGISTRY;
  return registry !== undefined && registry.get(socketInterceptor)?.readyState === 'ACTIVE';
}
