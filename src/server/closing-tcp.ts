import type { Server, Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { checkFunction, optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { ClosingConnections, type ConnectionTimes } from './closing-connections.js';
import type { ClosingServer } from './closing-grpc.js';

/** Names of methods that only HTTP servers have, whose connections the option `tcp` must not close. */
const ofHttp = ['closeIdleConnections', 'updateSettings'];

/**
 * Shuts down a server of `node:net` or `node:tls`. The server keeps listening until the end, because clients that do not know of the
 * shutdown yet would be refused.
 *
 * @param finish Closes one connection with its protocol's own goodbye.
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
  /** The connections that the application knows; with TLS it gets a connection after the handshake. */
  const open = server instanceof TlsServer ? new Set<Socket>() : sockets;
  const close = (socket: Socket): void => {
    try {
      finish(socket);
    } catch {
      // The application's `finish` may throw, for example because the socket can no longer be written to.
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
        // An error of `close` means that the server is not listening. It may still have connections.
        server.close(() => void connections.ended().then(resolve));
      }),
    hurry: () => connections.closeAll(),
    cut() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
