import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2Server, Http2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { checkFunction } from '../../runtime/check.js';
import { afterPendingIo } from '../../runtime/turn.js';
import type { ClosingServer } from './closing-server.js';

/**
 * Shuts down a server of `node:http`, `node:https` or `node:http2`. Once it closes, each response carries `Connection: close`, and HTTP/2
 * connections get GOAWAY. The server keeps listening until the end, because callers that do not know of the shutdown yet would be refused.
 */
export function httpClosing(server: HttpServer | Http2Server): ClosingServer {
  checkFunction('http.close', server?.close);
  checkFunction('http.on', server.on);
  return new ClosingHttp(server as HttpServer);
}

class ClosingHttp implements ClosingServer {
  readonly #server: HttpServer;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<Http2Session>();
  readonly #running = new Set<ServerResponse>();
  #isClosing = false;

  constructor(server: HttpServer) {
    this.#server = server;
    const opened = (socket: Socket): void => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    };
    server.on('connection', opened);
    // Of a TLS connection both sockets are tracked: the raw one so that it can be cut before the handshake, and the TLS socket because Node
    // closes that one when idle.
    server.on('secureConnection', opened);
    server.on('session', (session: Http2Session) => {
      this.#sessions.add(session);
      session.once('close', () => this.#sessions.delete(session));
      if (this.#isClosing) session.close();
    });
    // This listener is registered before the application's, so that it runs before the application responds.
    server.prependListener('request', (_request: IncomingMessage, response: ServerResponse) => {
      this.#running.add(response);
      response.once('close', () => this.#running.delete(response));
      if (this.#isClosing) sayClose(response);
    });
  }

  announce(): void {
    this.#keepIdle();
  }

  close(): void {
    this.#isClosing = true;
    for (const response of this.#running) sayClose(response);
    for (const session of this.#sessions) session.close();
    this.#keepIdle();
  }

  end(): Promise<void> {
    return new Promise((resolve) => {
      // A connection whose next request has arrived but was not read yet looks idle, so pending input is read first.
      afterPendingIo(() => {
        // An error of `close` means that the server is not listening. It may still have connections.
        this.#server.close(() => this.#whenAllClosed(resolve));
        this.#server.closeIdleConnections?.();
      });
    });
  }

  cut(): void {
    for (const session of this.#sessions) session.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }

  /**
   * Stops Node from closing idle connections. Node would close a connection that was idle for the `keepAliveTimeout` that it has announced;
   * clients that respect that close theirs at the same moment, or use them once more. From now on clients close first; connections of
   * clients that ignore the timeout are closed at the end.
   */
  #keepIdle(): void {
    const busy = new Set<Socket | null>();
    for (const { socket } of this.#running) busy.add(socket);
    for (const socket of this.#sockets) if (!busy.has(socket)) socket.setTimeout(0);
  }

  #whenAllClosed(resolve: () => void): void {
    const [socket] = this.#sockets;
    if (socket === undefined) resolve();
    else socket.once('close', () => this.#whenAllClosed(resolve));
  }
}

/** Makes Node send `Connection: close` and end the connection after the response. HTTP/2 has no such header. */
function sayClose(response: ServerResponse): void {
  if (!response.headersSent && 'shouldKeepAlive' in response) response.shouldKeepAlive = false;
}
