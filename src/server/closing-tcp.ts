import type { Server, Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { checkFunction, optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { ClosingConnections, type ConnectionTimes } from './closing-connections.js';
import type { ClosingServer } from './closing-grpc.js';

/** Names of methods that only HTTP servers have. Connections of those are not closed by the option `tcp`. */
const ofHttp = ['closeIdleConnections', 'updateSettings'];

/**
 * Shuts down a server of `node:net` or `node:tls`. It keeps listening until the end, because clients that do not know yet would be refused.
 *
 * @param finish Closes a connection as its protocol does.
 */
export function tcpClosing(
  server: Server,
  finish: (socket: Socket) => void,
  clock: Clock,
  times: ConnectionTimes,
): ClosingServer {
  checkFunction('tcp.close', server?.close);
  checkFunction('tcp.on', server.on);
  if (ofHttp.some((name) => name in server)) {
    throw optionError('tcp', 'a server of node:net or node:tls; one of HTTP belongs to http', server);
  }
  const sockets = new Set<Socket>();
  /** The connections that the application has; over TLS it gets one after the handshake. */
  const open = server instanceof TlsServer ? new Set<Socket>() : sockets;
  const close = (socket: Socket): void => {
    try {
      finish(socket);
    } catch {
      // `finish` may throw, for example because the socket can no longer be written to.
      socket.destroy();
    }
  };
  const connections = new ClosingConnections<Socket>(open, close, clock, times);
  const keepIn =
    (set: Set<Socket>) =>
    (socket: Socket): void => {
      set.add(socket);
      socket.once('close', () => set.delete(socket));
      if (set === open) connections.opened(socket);
    };
  server.on('connection', keepIn(sockets));
  if (open !== sockets) server.on('secureConnection', keepIn(open));
  return {
    close: () => connections.begin(),
    end: () =>
      new Promise((resolve) => {
        // An error of `close` means that the server is not listening; it may still have connections.
        server.close(() => void connections.ended().then(resolve));
      }),
    hurry: () => connections.closeAll(),
    cut() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
