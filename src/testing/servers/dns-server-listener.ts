import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram';
import { createServer, type Server as TcpServer, type Socket as TcpSocket } from 'node:net';
import { type DnsReply, readFramed } from './dns-server-framing.js';

/** How many free TCP ports are tried to find one that is free for UDP too. */
const MAX_TRIES = 10;

/** The process of a DNS server as clients see it: one port for UDP and TCP, opened and closed on demand. */
export class DnsListener {
  readonly #host: string;
  readonly #handle: (message: Buffer, reply: DnsReply) => void;
  readonly #connections = new Set<TcpSocket>();
  #port: number;
  #udp: UdpSocket | undefined;
  #tcp: TcpServer | undefined;

  /** @param port The port for UDP and TCP; 0 takes a free port and keeps it for every later `listen`. */
  constructor(host: string, port: number, handle: (message: Buffer, reply: DnsReply) => void) {
    this.#host = host;
    this.#port = port;
    this.#handle = handle;
  }

  get port(): number {
    return this.#port;
  }

  /** The address of the server as `ip:port`, which `dns.Resolver.setServers` expects. */
  get address(): string {
    return this.#host.includes(':') ? `[${this.#host}]:${this.#port}` : `${this.#host}:${this.#port}`;
  }

  /** Opens the UDP and the TCP socket. */
  async listen(): Promise<void> {
    // TCP is opened first; if its port is taken for UDP, another port is tried.
    for (let attempt = 1; ; attempt++) {
      const port = await this.#listenTcp(this.#port);
      try {
        await this.#listenUdp(port);
        this.#port = port;
        return;
      } catch (error) {
        await this.#closeTcp();
        if (this.#port !== 0 || attempt === MAX_TRIES) throw error;
      }
    }
  }

  /** Closes both sockets, and every TCP connection. */
  async stop(): Promise<void> {
    const udp = this.#udp;
    this.#udp = undefined;
    if (udp !== undefined) await new Promise<void>((resolve) => udp.close(() => resolve()));
    await this.#closeTcp();
  }

  /** Starts or stops listening on TCP. */
  async acceptTcp(accept: boolean): Promise<void> {
    if (accept && this.#tcp === undefined) await this.#listenTcp(this.#port);
    if (!accept) await this.#closeTcp();
  }

  async #listenUdp(port: number): Promise<void> {
    const socket = createSocket(this.#host.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', (message: Buffer, from: RemoteInfo) => {
      this.#handle(message, {
        protocol: 'udp',
        client: `udp ${from.address}:${from.port}`,
        send: (answer) => {
          if (this.#udp === socket) socket.send(answer, from.port, from.address, () => {});
        },
      });
    });
    await new Promise<void>((resolve, reject) => {
      socket.once('error', (error) => {
        socket.close();
        reject(error);
      });
      socket.bind(port, this.#host, () => {
        socket.removeAllListeners('error');
        socket.on('error', () => {}); // ignores an ICMP answer to a client that is gone
        resolve();
      });
    });
    this.#udp = socket;
  }

  async #listenTcp(port: number): Promise<number> {
    const server = createServer((socket) => {
      this.#connections.add(socket);
      socket.on('close', () => this.#connections.delete(socket));
      readFramed(socket, (message, reply) => this.#handle(message, reply));
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, this.#host, resolve);
    });
    this.#tcp = server;
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  async #closeTcp(): Promise<void> {
    const server = this.#tcp;
    this.#tcp = undefined;
    for (const socket of this.#connections) socket.destroy();
    if (server !== undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}
