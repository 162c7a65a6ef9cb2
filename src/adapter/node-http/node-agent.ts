import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';

// What Node's Agent and ClientRequest have but their documentation and types leave out, all in one place. Agents of
// other libraries have relied on it for ten years; the tests run it on every supported Node.

/** An Agent as `http.request` uses it. */
export interface RequestTaker {
  /** Gives the request a socket, by `request.onSocket`, now or later. */
  addRequest(request: ClientRequest, options: RequestOptions): void;
}

/** What `http.request` calls an Agent with: the options it was given, completed. */
export type { RequestOptions };

/** Whether `value` can take requests. */
export function takesRequests(value: unknown): value is RequestTaker {
  return typeof (value as Partial<RequestTaker> | null | undefined)?.addRequest === 'function';
}

/** What Node's own Agent does with a request, whatever `agent` makes of it. */
export function addRequest(agent: Agent, request: ClientRequest, options: RequestOptions): void {
  (Agent.prototype as unknown as RequestTaker).addRequest.call(agent, request, options);
}

/**
 * Makes the options of an Agent ones it inherits. `addRequest` copies an Agent's own ones, name by name, for every request,
 * which is most of what it costs; inherited ones are left where they are, and read the same.
 */
export function inheritOptions(agent: Agent): void {
  const own = agent as unknown as { options: object };
  own.options = Object.create(own.options) as object;
}

/**
 * Ends a request that has no socket: it emits the error, else the reason its caller destroyed it for, then `close`.
 * `destroy` alone would leave it hanging for ever.
 */
export function endWithoutSocket(request: ClientRequest, error?: Error): void {
  (request.onSocket as unknown as (socket: null, error: Error | undefined) => void).call(request, null, error);
}

/** The answer, from its head on. Asking leaves alone what depends on whether anybody listens for `response`. */
export function responseOf(request: ClientRequest): IncomingMessage | undefined {
  return (request as { res?: IncomingMessage | null }).res ?? undefined;
}

/** The `timeout` option a request was made with, in ms. */
export function timeoutOf(request: ClientRequest): number | undefined {
  return (request as { timeout?: number }).timeout;
}
