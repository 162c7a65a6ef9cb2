import { checkFunction, optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { ClosingConnections, type ConnectionTimes } from './closing-connections.js';
import type { ClosingServer } from './closing-grpc.js';

/** The part of a WebSocket of the package `ws` that evenkeel uses. */
interface WebSocket {
  close(code: number, reason: string): void;
  terminate(): void;
  once(event: 'close', listener: () => void): unknown;
}

/** The part of a `WebSocketServer` of the package `ws` that evenkeel uses. */
export interface WebSockets {
  readonly clients: ReadonlySet<WebSocket>;
  on(event: 'connection', listener: (socket: WebSocket) => void): unknown;
}

/**
 * The WebSocket close code 1012, Service Restart (IANA registry of RFC 6455), after which a client should connect again a little later.
 */
const SERVICE_RESTART = 1012;
const REASON = 'the pod is leaving';

/** Closes the WebSockets of a pod that shuts down, with the code 1012. */
export function webSocketClosing(webSockets: WebSockets, clock: Clock, times: ConnectionTimes): ClosingServer {
  checkFunction('webSockets.on', webSockets?.on);
  const { clients } = webSockets;
  if (!(clients instanceof Set)) {
    throw optionError('webSockets', 'a WebSocketServer that tracks its clients', webSockets);
  }
  const close = (socket: WebSocket): void => socket.close(SERVICE_RESTART, REASON);
  const connections = new ClosingConnections<WebSocket>(clients, close, clock, times);
  webSockets.on('connection', (socket) => connections.opened(socket));
  return {
    close: () => connections.begin(),
    end: () => connections.ended(),
    hurry: () => connections.closeAll(),
    cut() {
      for (const socket of clients) socket.terminate();
    },
  };
}
