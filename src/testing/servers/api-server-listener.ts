import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { hostPort } from '../../endpoint/address.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import type { Certificate } from './api-server-certificate.js';
import { resetSocket } from './reset-socket.js';

/** What a `LoopbackListener` needs. */
export interface LoopbackListenerParts {
  /** The loopback address on which the server listens. */
  readonly host: string;
  /** The port on which the server listens; 0 for any free port, which is then kept for every later start. */
  readonly port: number;
  /** The certificate of the server; undefined for plain HTTP. */
  readonly certificate: Certificate | undefined;
  readonly clock: Clock;
  readonly answer: RequestListener;
}

/** The process of an API server as clients see it: a port on a loopback address and its connections, killed and started on demand. */
export class LoopbackListener {
  /** How many connections were accepted, over all starts. */
  connections = 0;
  readonly #parts: LoopbackListenerParts;
  readonly #sockets = new Set<Socket>();
  #port: number;
  #server: Server | undefined;
  #grace: Timer | undefined;
  #closed = false;

  constructor(parts: LoopbackListenerParts) {
    this.#parts = parts;
    this.#port = parts.port;
  }

  get url(): string {
    return `${this.#parts.certificate === undefined ? 'http' : 'https'}://${hostPort(this.#parts.host, this.#port)}`;
  }

  get port(): number {
    return this.#port;
  }

  /** How many connections are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Whether the server may be started: false while it runs, and after `close`. */
  get canStart(): boolean {
    return !this.#closed && this.#server === undefined;
  }

  async start(): Promise<void> {
    const { certificate, answer, host } = this.#parts;
    const server = certificate === undefined ? createHttpServer(answer) : createHttpsServer({ ...certificate }, answer);
    server.keepAliveTimeout = 90_000;
    server.requestTimeout = 0;
    server.on('connection', (socket: Socket) => {
      this.connections += 1;
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    // In TLS tests, clients reject the server's certificate on purpose.
    server.on('tlsClientError', () => {});
    await listen(server, host, this.#port);
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Ends the server as SIGKILL would: every connection is reset. Resolves when all are gone. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#grace?.cancel();
    const closed = server === undefined ? undefined : closeServer(server);
    for (const socket of this.#sockets) resetSocket(socket);
    await closed;
    await this.#allGone();
  }

  /** Ends the server as SIGTERM would: the port is free at once; connections live on for `graceMs`, are notified by `ending`, and end. */
  async terminate(graceMs: number, ending: () => void): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const sockets = [...this.#sockets];
    const closed = closeServer(server);
    this.#grace?.cancel();
    this.#grace = this.#parts.clock.timer(() => {
      ending();
      for (const socket of sockets) socket.destroySoon();
    }, graceMs);
    // The port is free at once, so nothing waits for the connections.
    closed.catch(() => {});
  }

  /** Ends the server as `kill` does, permanently. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.kill();
  }

  async #allGone(): Promise<void> {
    // A socket leaves the set on `close`, so every socket in the set will still emit `close`.
    await Promise.all(
      [...this.#sockets].map((socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))),
    );
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
