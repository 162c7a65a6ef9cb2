import type { Server, Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { checkFunction, optionError } from '../../runtime/check.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import type { ClosingServer } from './closing-server.js';

/** A connection that a server keeps open for hours, such as a WebSocket. */
interface LivingConnection {
  once(event: 'close', listener: () => void): unknown;
}

/** When a pod that shuts down closes its long-lived connections, in ms. */
export interface ConnectionTimes {
  /** How long clients have to leave by themselves after the pod began to close, in ms. */
  readonly leaveMs: number;
  /** Over how much time the connections that have not left are closed, in ms. */
  readonly spreadMs: number;
}

/**
 * Closes the long-lived connections of a pod that shuts down. Clients that watch the Service leave by themselves, one by one. Connections
 * that are still there after `leaveMs` are closed, evenly spread over `spreadMs`, so that clients do not all reconnect to other pods at
 * once.
 */
class ClosingConnections<C extends LivingConnection> {
  readonly #open: ReadonlySet<C>;
  readonly #close: (connection: C) => void;
  readonly #clock: Clock;
  readonly #times: ConnectionTimes;
  readonly #timers = new Set<Timer>();
  #isClosing = false;

  /**
   * @param open The set of open connections, which the caller keeps up to date. @param close Closes one connection with its protocol's own
   * goodbye.
   */
  constructor(open: ReadonlySet<C>, close: (connection: C) => void, clock: Clock, times: ConnectionTimes) {
    this.#open = open;
    this.#close = close;
    this.#clock = clock;
    this.#times = times;
  }

  /** A connection was opened. */
  opened(connection: C): void {
    if (this.#isClosing) this.#close(connection);
  }

  /** The pod begins to close, and its clients have `leaveMs` to leave by themselves. */
  begin(): void {
    if (!this.#isClosing) this.#after(this.#times.leaveMs, () => this.#spread());
  }

  /** Closes all connections that are still open. */
  closeAll(): void {
    this.#isClosing = true;
    this.#stop();
    for (const connection of [...this.#open]) this.#close(connection);
  }

  /** Resolves when all connections are closed. */
  async ended(): Promise<void> {
    for (const connection of this.#open) {
      await new Promise<void>((resolve) => {
        connection.once('close', resolve);
      });
    }
    this.#stop();
  }

  #spread(): void {
    this.#isClosing = true;
    const connections = [...this.#open];
    connections.forEach((connection, index) => {
      this.#after((this.#times.spreadMs * index) / connections.length, () => this.#close(connection));
    });
  }

  #stop(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }

  #after(delayMs: number, fn: () => void): void {
    const timer = this.#clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }
}

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
