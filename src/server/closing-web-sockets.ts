import { checkFunction, optionError } from '../runtime/check.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { ClosingServer } from './closing-grpc.js';

/** The part of a WebSocket of the package `ws` used here. */
interface WebSocket {
  close(code: number, reason: string): void;
  terminate(): void;
  once(event: 'close', listener: () => void): unknown;
}

/** The part of a `WebSocketServer` of the package `ws` used here. */
export interface WebSockets {
  readonly clients: ReadonlySet<WebSocket>;
  on(event: 'connection', listener: (socket: WebSocket) => void): unknown;
}

/** Service Restart (RFC 6455 registry): a client should connect again, a little later. */
const SERVICE_RESTART = 1012;
const REASON = 'the pod is leaving';

/** Closes WebSockets with 1012, evenly spread over `spreadMs`, so that clients do not all reconnect to other pods at once. */
export function webSocketClosing(webSockets: WebSockets, clock: Clock, spreadMs: number): ClosingServer {
  checkFunction('webSockets.on', webSockets?.on);
  if (!(webSockets.clients instanceof Set)) {
    throw optionError('webSockets', 'a WebSocketServer that tracks its clients', webSockets);
  }
  const timers = new Set<Timer>();
  let isClosing = false;
  const close = (socket: WebSocket): void => socket.close(SERVICE_RESTART, REASON);
  webSockets.on('connection', (socket) => {
    if (isClosing) close(socket);
  });
  return {
    close() {
      isClosing = true;
      const sockets = [...webSockets.clients];
      sockets.forEach((socket, index) => {
        const timer = clock.timer(
          () => {
            timers.delete(timer);
            close(socket);
          },
          (spreadMs * index) / sockets.length,
        );
        timers.add(timer);
      });
    },
    async end() {
      for (const timer of timers) timer.cancel();
      timers.clear();
      const open = [...webSockets.clients];
      const closed = open.map((socket) => new Promise<void>((resolve) => socket.once('close', resolve)));
      for (const socket of open) close(socket);
      await Promise.all(closed);
    },
    cut() {
      for (const socket of webSockets.clients) socket.terminate();
    },
  };
}
