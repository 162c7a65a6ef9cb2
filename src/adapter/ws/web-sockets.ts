import type { Agent } from 'node:http';
import type { Socket } from 'node:net';
import WebSocket, { type ClientOptions } from 'ws';
import type { Balancer } from '../../index.js';
import { OriginMatcher, serviceOrigin } from '../http/origin.js';
import {
  type ConnectionLeaving,
  type HeldSocket,
  optionError,
  ownProperties,
  SocketPlacer,
  textOf,
} from '../kit/index.js';
import { type AgentParts, heldBy, PlacingAgent, SharedAgent } from './agent.js';
import {
  LEAVE_CODE,
  LEAVE_REASON,
  type ServiceWebSockets,
  type WebSocketsOptions,
  webSocketsTable,
} from './options.js';

/**
 * Creates WebSockets to the pods of a Service, with the package `ws`. Must be closed.
 *
 * @param url Such as `ws://chat.shop:8080`, or `wss:`.
 * @throws EVENKEEL_OPTION for an invalid URL or option.
 * @example
 * const chat = createWebSockets('ws://chat.shop:8080');
 * const socket = new chat.WebSocket('ws://chat.shop:8080/rooms/7');
 */
export function createWebSockets(url: string | URL, options: WebSocketsOptions = {}): ServiceWebSockets {
  return new BalancedWebSockets(httpOrigin(url), options);
}

/** Returns the origin of the HTTP request that opens a WebSocket: `ws:` becomes `http:`, `wss:` becomes `https:`. */
function httpOrigin(url: unknown): URL {
  const text = textOf(url);
  if (!/^wss?:\/\//i.test(text)) throw optionError('url', 'a URL of a Service such as ws://chat.shop:8080', url);
  return serviceOrigin('url', text.replace(/^ws/i, 'http'));
}

function originOf(address: unknown): string {
  const text = String(address).replace(/^ws/i, 'http');
  return URL.canParse(text) ? new URL(text).origin : text;
}

class BalancedWebSockets implements ServiceWebSockets {
  readonly balancer: Balancer<unknown>;
  readonly WebSocket: typeof WebSocket;
  readonly agent: Agent;
  readonly #placer: SocketPlacer;

  constructor(origin: URL, options: WebSocketsOptions) {
    checkKeysOf(options);
    const own = ownProperties(options);
    const { leaveCode, onLeaving, tls, ...rest } = own;
    const code = webSocketsTable.resolveOwn({ leaveCode }).leaveCode;
    const reason = code === LEAVE_CODE ? LEAVE_REASON : '';
    const isSecure = origin.protocol === 'https:';
    if (!isSecure && tls !== undefined) throw optionError('tls', 'left out for ws: URLs', tls);
    const port = origin.port || (isSecure ? '443' : '80');
    const placing = { ...rest, onLeaving, ...(isSecure && { tls: tls ?? {} }) };
    const placer = new SocketPlacer(`${origin.hostname}:${port}`, placing as never);
    this.#placer = placer;
    this.balancer = placer.balancer;
    const parts: AgentParts = { placer, origin: new OriginMatcher(origin), isSecure };
    this.agent = new SharedAgent(
      parts,
      (leaving, socket) => {
        onLeaving?.(leaving, socket);
        return onLeaving !== undefined;
      },
      code,
      reason,
    );
    const shared: Leaving = { code, reason, onLeaving };
    const agent = new PlacingAgent(parts);
    this.WebSocket = class ServiceWebSocket extends WebSocket {
      constructor(address: string | URL, protocols?: string | string[] | ClientOptions, more?: ClientOptions) {
        const areOptions = typeof protocols === 'object' && protocols !== null && !Array.isArray(protocols);
        const clientOptions = areOptions ? protocols : more;
        const held = new HeldWebSocket(shared);
        const balancedOptions = parts.origin.matches(originOf(address)) ? { agent, [heldBy]: held } : {};
        super(address, areOptions ? [] : protocols, { ...clientOptions, ...balancedOptions } as ClientOptions);
        held.webSocket = this;
      }
    } as typeof WebSocket;
  }

  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void> {
    return this.#placer.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** How the WebSockets of one client are told to leave their pods, and closed. */
interface Leaving {
  readonly code: number;
  readonly reason: string;
  readonly onLeaving: WebSocketsOptions['onLeaving'];
}

/** One WebSocket, which decides how its connection leaves its pod. */
class HeldWebSocket implements HeldSocket {
  readonly #leaving: Leaving;
  /** The WebSocket on this connection, set before the connection is opened. */
  webSocket: WebSocket | undefined;

  constructor(leaving: Leaving) {
    this.#leaving = leaving;
  }

  leave(leaving: ConnectionLeaving): boolean {
    const { webSocket } = this;
    if (webSocket === undefined) return false;
    const { onLeaving } = this.#leaving;
    onLeaving?.(leaving, webSocket);
    return webSocket.emit('leaving', leaving) || onLeaving !== undefined;
  }

  finish(socket: Socket): void {
    const { webSocket } = this;
    if (webSocket?.readyState === WebSocket.OPEN) void webSocket.close(this.#leaving.code, this.#leaving.reason);
    else if (webSocket?.readyState === WebSocket.CONNECTING) socket.destroy();
  }
}

function checkKeysOf(options: unknown): void {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
}
