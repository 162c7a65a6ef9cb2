import { Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Clock, type Endpoint, endpointAddress } from '../../index.js';
import type { PodLink } from '../http/pod-link.js';
import { afterPendingIo } from '../kit/index.js';
import { IdleSockets } from './idle-sockets.js';
import { keepAliveMs } from './keep-alive.js';
import { addRequest, endWithoutSocket, inheritOptions } from './node-agent.js';

/** A request that wants a socket. Exactly one of `served` and `refused` is called, unless it stops wanting before. */
export interface SocketSeeker {
  readonly request: ClientRequest;
  readonly wanted: boolean;
  /** Whether it would rather be refused, and go fallback, than use a connection that is being given up. */
  readonly movable: boolean;
  /** Whether its pod has left the Service since it was picked: it may be gone in a moment. */
  readonly podLeft: boolean;
  /** It gets its socket in this turn. */
  served(): void;
  /** It gets none; nothing of it was sent. */
  refused(error: Error): void;
}

/** What a `PodAgent` is made of. */
export interface PodAgentParts {
  readonly endpoint: Endpoint;
  readonly origin: URL;
  readonly link: PodLink;
  /** Sockets at most. */
  readonly connections: number;
  readonly keepAliveTimeoutMs: number;
  readonly clock: Clock;
}

/** Whom Node has told when a socket is open, or could not be opened. */
type SocketCreated = (error: Error | null, socket?: Duplex) => void;

/** A socket that was idle for longer, in ms, is used only after a look at whether the pod has ended it meanwhile. */
const LOOK_AFTER_MS = 5;

/**
 * The keep-alive Agent of one pod. Whatever host a request names, its sockets go to this pod. A request gets a socket
 * that is open already: until then it can still go elsewhere.
 */
export class PodAgent extends Agent {
  readonly #parts: PodAgentParts;
  /** The same for all requests: our sockets do not depend on what a request asks for. */
  readonly #options: { readonly host: string; readonly port: number; readonly servername: '' };
  readonly #name: string;
  readonly #idle: IdleSockets;
  /** Sockets that are their caller's own since an upgrade. */
  readonly #detached = new WeakSet<Socket>();
  /** Open, for the request that is being served just now. */
  #fresh: Socket | undefined;
  #closing = false;
  #cut = false;

  constructor(parts: PodAgentParts) {
    // No limits here: the balancer sends no more requests than `connections`.
    super({ keepAlive: true, maxFreeSockets: parts.connections });
    const { endpoint, origin, clock } = parts;
    this.#parts = parts;
    this.#idle = new IdleSockets(clock);
    this.#options = { host: endpoint.address, port: endpoint.port, servername: '' };
    this.#name = endpointAddress(endpoint);
    Object.assign(this, { protocol: origin.protocol, defaultPort: origin.protocol === 'https:' ? 443 : 80 });
    inheritOptions(this);
  }

  /** Whether its sockets were cut, by us. */
  get isCut(): boolean {
    return this.#cut;
  }

  /** Whether the socket belongs to its caller since an upgrade. */
  isDetached(socket: Duplex): boolean {
    return this.#detached.has(socket as Socket);
  }

  /** A request died with its socket. */
  lost(error: Error): void {
    this.#parts.link.lost(error);
  }

  /** What `http.request` calls when it is given this agent. */
  addRequest(request: ClientRequest): void {
    this.serve({
      request,
      wanted: true,
      movable: true,
      podLeft: false,
      served: () => {},
      refused: (error) => endWithoutSocket(request, error),
    });
  }

  /** Finds a socket for a request: an idle one, the one opened ahead, or a new one. May call back at once. */
  serve(seeker: SocketSeeker): void {
    if (this.#refuses(seeker)) return;
    const idleMs = this.#newestIdle();
    if (idleMs !== undefined && idleMs <= LOOK_AFTER_MS) this.#hand(seeker, undefined);
    else if (idleMs === undefined && !this.#parts.link.sockets.hasSpare) this.#dial(seeker);
    else afterPendingIo(() => this.#serveNow(seeker));
  }

  /** Takes no more requests; those that run finish, and so do their sockets. */
  stop(): void {
    this.#closing = true;
    this.#idle.stop();
    for (const sockets of Object.values(this.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  /** Ends all sockets, upgraded ones too. */
  cut(): void {
    this.#cut = true;
    this.#parts.link.sockets.destroyAll();
  }

  override getName(): string {
    return this.#name;
  }

  /**
   * Node asks for a socket after `#hand` found one. It finds none where somebody between Node and us destroyed the idle
   * socket `#hand` had seen, as nock and msw do with sockets older than they are: then a new one is opened.
   */
  override createConnection(_options: unknown, created: SocketCreated): Duplex | undefined {
    const socket = this.#fresh;
    if (socket === undefined) {
      this.#parts.link.dial((error, dialled) => {
        if (error !== undefined) created(error);
        else created(null, this.#watched(dialled));
      });
      return undefined;
    }
    this.#fresh = undefined;
    return this.#watched(socket);
  }

  #watched(socket: Socket): Socket {
    const forget = this.#idle.watch(socket);
    socket.once('agentRemove', () => {
      forget();
      this.#detached.add(socket);
    });
    return socket;
  }

  /** A request has ended in order: whether its socket is kept for another. */
  override keepSocketAlive(duplex: Duplex): boolean {
    const socket = duplex as Socket & { _httpMessage?: { res?: IncomingMessage } };
    const { link, connections, keepAliveTimeoutMs } = this.#parts;
    if (this.#closing || link.sockets.open > connections) return false;
    const limitMs = keepAliveMs(keepAliveTimeoutMs, socket._httpMessage?.res?.headers['keep-alive']);
    if (limitMs === 0) return false;
    this.#idle.add(socket, limitMs);
    socket.unref();
    // That of a request is not the next one's: some clients leave listeners on their sockets that act on it.
    if (socket.timeout) socket.setTimeout(0);
    return true;
  }

  override reuseSocket(duplex: Duplex, request: ClientRequest): void {
    const socket = duplex as Socket;
    super.reuseSocket(socket, request);
    this.#idle.remove(socket);
  }

  #serveNow(seeker: SocketSeeker): void {
    if (!seeker.wanted || this.#refuses(seeker)) return;
    if (this.#newestIdle() !== undefined) {
      this.#hand(seeker, undefined);
      return;
    }
    const spare = this.#parts.link.sockets.takeSpare();
    if (spare === undefined) this.#dial(seeker);
    else this.#hand(seeker, spare);
  }

  #dial(seeker: SocketSeeker): void {
    this.#parts.link.dial((error, socket) => {
      if (error !== undefined) {
        if (seeker.wanted) seeker.refused(error);
      } else if (!seeker.wanted || this.#refuses(seeker)) this.#keep(socket);
      else this.#hand(seeker, socket);
    });
  }

  /** True for a request that must not be sent here any more. */
  #refuses(seeker: SocketSeeker): boolean {
    // What costs most is asked last: nearly every request comes to a pod that stays.
    if (this.#cut || ((this.#closing || seeker.podLeft) && seeker.movable)) {
      seeker.refused(new Error(`the connection to ${this.#name} is being given up`));
      return true;
    }
    return false;
  }

  /** Lets Node's Agent join the request and its newest idle socket, or else the fresh one. */
  #hand(seeker: SocketSeeker, fresh: Socket | undefined): void {
    this.#fresh = fresh;
    seeker.served();
    addRequest(this, seeker.request, this.#options);
    const left = this.#fresh;
    this.#fresh = undefined;
    if (left !== undefined) this.#keep(left);
  }

  /** An open socket nobody wants at the moment. */
  #keep(socket: Socket): void {
    const { sockets } = this.#parts.link;
    if (this.#closing || sockets.hasSpare) socket.destroy();
    else {
      socket.unref();
      sockets.setAside(socket);
    }
  }

  /** For how long, in ms, the socket Node's Agent would take next has been idle, once those no good are out of its way. */
  #newestIdle(): number | undefined {
    const idle = this.freeSockets[this.#name] as Socket[] | undefined;
    for (let socket = idle?.at(-1); socket !== undefined; socket = idle?.at(-1)) {
      // Timers are late when the event loop is busy.
      const idleMs = this.#idle.idleMs(socket);
      if (idleMs !== undefined && !socket.destroyed && socket.writable && !socket.readableEnded) return idleMs;
      idle?.pop();
      socket.destroy();
    }
    return undefined;
  }
}
