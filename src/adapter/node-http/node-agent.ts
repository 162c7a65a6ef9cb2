import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';

// Undocumented parts of Node's Agent and ClientRequest, all in one place. Agents of other libraries have relied on them for ten years;
// the tests use them on every supported Node.

/** An Agent as `http.request` uses it. */
export interface RequestTaker {
  /** Gives the request a socket, by `request.onSocket`, now or later. */
  addRequest(request: ClientRequest, options: RequestOptions): void;
}

/** The options `http.request` passes to an Agent: those it was given, completed. */
export type { RequestOptions };

/** Whether `value` can take requests. */
export function takesRequests(value: unknown): value is RequestTaker {
  return typeof (value as Partial<RequestTaker> | null | undefined)?.addRequest === 'function';
}

/** What Node's own Agent does with a request, regardless of overrides in `agent`. */
export function addRequest(agent: Agent, request: ClientRequest, options: RequestOptions): void {
  (Agent.prototype as unknown as RequestTaker).addRequest.call(agent, request, options);
}

/**
 * Moves the options of an Agent to its prototype. `addRequest` copies own options one by one for every request, which is most of its
 * cost; inherited ones are not copied, and read the same.
 */
export function inheritOptions(agent: Agent): void {
  const own = agent as unknown as { options: object };
  own.options = Object.create(own.options) as object;
}

/**
 * Ends a request that has no socket: it emits the error, or the reason its caller destroyed it with, then `close`. `destroy` alone would
 * leave it hanging forever.
 */
export function endWithoutSocket(request: ClientRequest, error?: Error): void {
  (request.onSocket as unknown as (socket: null, error: Error | undefined) => void).call(request, null, error);
}

/** The response, once its headers arrived. Unlike a listener for `response`, reading this changes nothing. */
export function responseOf(request: ClientRequest): IncomingMessage | undefined {
  return (request as { res?: IncomingMessage | null }).res ?? undefined;
}

/** The `timeout` option a request was made with, in ms. */
export function timeoutOf(request: ClientRequest): number | undefined {
  return (request as { timeout?: number }).timeout;
}
