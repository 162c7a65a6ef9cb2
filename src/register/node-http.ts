import { AsyncResource } from 'node:async_hooks';
import type { Agent, ClientRequest } from 'node:http';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import type { ConnectionOptions } from 'node:tls';
import { endWithoutSocket } from '../adapter/http/internals.js';
import { asError } from '../adapter/kit/index.js';
import { type AppRouter, openAppRouter, type ServiceOptions } from '../adapter/node-http/app-agents.js';
import { discoveryOf, type EngineOptions, serviceOptionsOf, servicesRule, stockError } from './engine.js';

type RequestOptions = Parameters<AppRouter['route']>[2];

/** Balances an app's requests with `http` and `https`. The options of the app's own agents stay in force. */
export interface NodeHttpEngine {
  route(agent: Agent, request: ClientRequest, options: RequestOptions, onward: () => void): void;
}

/** @throws EVENKEEL_OPTION for invalid options in `EVENKEEL_CONFIG`. */
export function createEngine(options: EngineOptions): NodeHttpEngine {
  const { config } = options;
  const router = openAppRouter({
    services: servicesRule(options),
    options: serviceOptionsOf(config.http, options.giveUp) as ServiceOptions,
    discovery: discoveryOf(options),
    errorOf: requestError,
    optionsFailed: options.giveUp,
  });
  const queues = new WeakMap<Agent, Map<string, Queue>>();
  /** The sockets that requests of an agent have used. Connections to pods are shared, so a socket that is new to an agent may be a kept one. */
  const known = new WeakMap<Agent, WeakSet<Socket>>();
  return {
    route(agent, request, requestOptions, onward) {
      const own = agent as Agent & { readonly protocol: string; readonly options: AgentOptions };
      const { timeout } = own.options;
      if (timeout && (request as { timeout?: number }).timeout === undefined) request.setTimeout(timeout);
      // An agent's options take precedence over those of a request, as in Node's Agent.
      const merged = { ...requestOptions, ...own.options } as RequestOptions;
      if (merged.host !== requestOptions.host || merged.port !== requestOptions.port) {
        onward();
        return;
      }
      let isPassedOn = false;
      const passOn = (): void => {
        isPassedOn = true;
        onward();
      };
      // Added before the caller can listen, so it is called first.
      request.once('socket', (socket) => {
        if (isPassedOn || !(socket instanceof Socket)) return;
        const sockets = known.get(agent) ?? new WeakSet();
        if (sockets.has(socket)) return;
        known.set(agent, sockets.add(socket));
        tellAddress(socket, requestOptions.host);
      });
      const begin = (): void => router.route(own.protocol, request, merged, passOn);
      if (agent.maxSockets === Number.POSITIVE_INFINITY) begin();
      else
        queueOf(queues, agent, `${requestOptions.host}:${requestOptions.port}`).add(request, agent.maxSockets, begin);
    },
  };
}

/**
 * Emits `lookup` for a caller that listens for it, as Node does when it has resolved a name for a new connection: checks of an app that refuse
 * addresses listen there. Until they have been called, nothing of the request is sent.
 */
function tellAddress(socket: Socket, host: string | null | undefined): void {
  const added = (event: string | symbol): void => {
    if (event !== 'lookup') return;
    stop();
    socket.cork();
    if (socket.connecting) socket.once('connect', tell);
    else process.nextTick(tell);
  };
  const tell = (): void => {
    const { remoteAddress: address, remoteFamily } = socket;
    if (address !== undefined) socket.emit('lookup', null, address, remoteFamily === 'IPv6' ? 6 : 4, host);
    socket.uncork();
  };
  const stop = (): unknown => socket.off('newListener', added);
  socket.on('newListener', added);
  process.nextTick(stop);
}

/**
 * Converts the error of a failed request to the form in which Node reports it. Node's own request writes before the TLS handshake has
 * ended, so an OpenSSL error appears as the error of that write.
 */
function requestError(error: Error, host: string): Error {
  const stock: NodeJS.ErrnoException = stockError(error, host);
  if (stock === error || stock.code?.startsWith('ERR_SSL_') !== true) return stock;
  const message = `write EPROTO ${stock.message}`;
  return Object.assign(stock, { message, code: 'EPROTO', errno: -constants.errno.EPROTO, syscall: 'write' });
}

type AgentOptions = ConnectionOptions & { readonly timeout?: number };

function queueOf(queues: WeakMap<Agent, Map<string, Queue>>, agent: Agent, host: string): Queue {
  let byHost = queues.get(agent);
  if (byHost === undefined) {
    byHost = new Map();
    queues.set(agent, byHost);
  }
  let queue = byHost.get(host);
  if (queue === undefined) {
    queue = new Queue(() => byHost.delete(host));
    byHost.set(host, queue);
  }
  return queue;
}

/** The requests of one agent to one host. At most the agent's `maxSockets` of them run at once; the others wait, as with Node's Agent. */
class Queue {
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #emptied: () => void;

  constructor(emptied: () => void) {
    this.#emptied = emptied;
  }

  /** @throws What `begin` throws, unless the request has to wait; then the request fails with that error. */
  add(request: ClientRequest, most: number, begin: () => void): void {
    if (this.#running < most) {
      this.#run(request, begin);
      return;
    }
    const run = (): void => {
      try {
        this.#run(request, begin);
      } catch (error) {
        endWithoutSocket(request, asError(error));
      }
    };
    // The request's events need its caller's async context, not that of the request whose end it waits for.
    this.#waiting.push(AsyncResource.bind(run));
  }

  #run(request: ClientRequest, begin: () => void): void {
    this.#running++;
    const ended = (): void => this.#ended();
    request.once('close', ended);
    try {
      begin();
    } catch (error) {
      // A request that Node refuses never closes.
      request.off('close', ended);
      ended();
      throw error;
    }
  }

  #ended(): void {
    this.#running--;
    const next = this.#waiting.shift();
    if (next !== undefined) next();
    else if (this.#running === 0) this.#emptied();
  }
}
