import { AsyncResource } from 'node:async_hooks';
import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import { inspect } from 'node:util';
import type { Clock, Timer } from '../../index.js';

// Undocumented parts of Node's Agent and ClientRequest. Agents of other libraries have relied on them for ten years; the tests use them
// on every supported Node.

/** An Agent as `http.request` uses it. */
export interface RequestTaker {
  /** Gives the request a socket, by `request.onSocket`, now or later. */
  addRequest(request: ClientRequest, options: RequestOptions): void;
}

/** What an Agent gives a socket to: a request, as far as an Agent sees it. */
export interface SocketTaker {
  /** Whether the socket carried another request before. The Agent sets it. */
  reusedSocket: boolean;
  onSocket(socket: Socket | null | undefined, error?: Error | null): void;
  once(event: 'close', listener: () => void): unknown;
}

/** The options `http.request` passes to an Agent: those it was given, completed. */
export type { RequestOptions };

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

/** Whether `value` can take requests. */
export function takesRequests(value: unknown): value is RequestTaker {
  return typeof (value as Partial<RequestTaker> | null | undefined)?.addRequest === 'function';
}

/** Throws for a Host header that is no text, as Node's own Agents do: a list would be sent as several headers. */
export function checkHost(request: ClientRequest, { servername }: RequestOptions & { servername?: string }): void {
  const host: unknown = request.getHeader('host');
  // They read it for the name of TLS only.
  if (!host || typeof host === 'string' || servername || servername === '') return;
  const message = `The "options.headers.host" property must be of type string. Received ${inspect(host)}`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
}

/** What Node's own Agent does with a request, regardless of overrides in `agent`. */
export function addRequest(agent: Agent, request: SocketTaker, options: RequestOptions): void {
  (Agent.prototype as unknown as RequestTaker).addRequest.call(agent, request as ClientRequest, options);
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

/** What Node keeps of a request's time limit. */
interface Limited {
  /** In ms; it applies to the socket the request gets. */
  timeout?: number | undefined;
  /** What Node has added to that socket, or will; if it is set, it adds nothing more. */
  timeoutCb?: (() => void) | null;
}

/** The longest time of a timer, in ms; Node shortens longer ones to this. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
const noTimeout = (): void => {};

/**
 * Watches a request that has no socket yet. Node does not track those: it neither reports that the caller destroyed the request nor runs
 * its timeout. So the two methods concerned are replaced while it waits.
 */
export class PendingRequest {
  readonly #request: ClientRequest;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #timeoutMs = 0;
  /** The caller has been told so. */
  #timedOut = false;
  #restore: (() => void)[];

  /** `destroyed`: the caller gave up, also by `abort()` or its signal. */
  constructor(request: ClientRequest, clock: Clock, destroyed: () => void) {
    this.#request = request;
    this.#clock = clock;
    const { destroy, setTimeout: setLimit } = request;
    this.#restore = [
      replace(request, 'destroy', (error) => {
        destroy.call(request, error);
        destroyed();
        return request;
      }),
      replace(request, 'setTimeout', (timeoutMs, callback) => {
        const limited = request as Limited;
        const before = limited.timeoutCb ?? null;
        // Node checks and keeps what it is given, but does not listen on the socket to come: `release` decides that.
        limited.timeoutCb = noTimeout;
        try {
          setLimit.call(request, timeoutMs, callback);
        } finally {
          limited.timeoutCb = before;
        }
        this.#limit(timeoutMs);
        return request;
      }),
    ];
    this.#limit((request as Limited).timeout ?? 0);
  }

  /** The request's time limit from now on, in ms; 0 = none. */
  get timeoutMs(): number {
    return this.#timedOut ? 0 : this.#timeoutMs;
  }

  /** The request has a socket, or no longer needs one: puts back the methods that were replaced. */
  release(): void {
    this.#timer?.cancel();
    // In reverse order: objects stay fast if the last property is deleted first.
    for (const restore of this.#restore.reverse()) restore();
    this.#restore = [];
    const limited = this.#request as Limited;
    // Node tells a caller once.
    if (this.#timedOut) limited.timeoutCb = noTimeout;
    else if (this.#timeoutMs > 0) limited.timeout = this.#timeoutMs;
    else if (limited.timeout !== undefined) limited.timeout = undefined;
  }

  #limit(timeoutMs: number): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timeoutMs = Math.min(timeoutMs, MAX_TIMEOUT_MS);
    if (timeoutMs <= 0 || this.#timedOut) return;
    // In the caller's async context; the caller decides what to do.
    const timedOut = AsyncResource.bind(() => {
      this.#timedOut = true;
      this.#request.emit('timeout');
    });
    this.#timer = this.#clock.timer(timedOut, this.#timeoutMs);
  }
}
