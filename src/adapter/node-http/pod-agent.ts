import { AsyncResource } from 'node:async_hooks';
import type { ClientRequest } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Clock, type Endpoint, endpointAddress, systemClock } from '../../index.js';
import type { Dialled } from '../http/dial.js';
import {
  addRequest,
  endWithoutSocket,
  enterContext,
  freeSocketsOf,
  inheritOptions,
  requestOn,
  responseOf,
  type SocketTaker,
  setProtocol,
  withoutFreeSockets,
} from '../http/internals.js';
import type { Pod } from '../http/pod.js';
import type { PodSignals } from '../http/pod-signals.js';
import { afterPendingIo, nodeHttp } from '../kit/index.js';
import { IdleSockets, keepAliveMs } from './idle-sockets.js';

/** A request that needs a socket. Exactly one of `assigned` and `refused` is called, unless the request stops needing a socket before. */
export interface SocketSeeker {
  readonly request: SocketTaker;
  readonly wanted: boolean;
  /** Whether the request should be refused, so that it moves to another pod, rather than use a connection that is being given up. */
  readonly movable: boolean;
  /** Whether the request's pod has left the Service since it was picked. */
  readonly podLeft: boolean;
  /** The request gets its socket in this turn of the event loop. */
  assigned(): void;
  /** The request gets no socket; nothing of it was sent. */
  refused(error: Error): void;
}

/** What a `PodAgent` needs. */
export interface PodAgentParts {
  readonly endpoint: Endpoint;
  readonly origin: URL;
  readonly pod: Pod<PodAgent>;
  /** The maximum number of sockets to the pod. */
  readonly connections: number;
  readonly keepAliveTimeoutMs: number;
  readonly clock: Clock;
}

/** The callback by which Node's Agent gets a socket, or the error of opening it. */
type SocketCreated = (error: Error | null, socket?: Duplex) => void;

/**
 * A socket that was idle for longer than this, in ms, is used only after pending events were read, which show whether the pod has closed
 * it.
 */
const CHECK_AFTER_MS = 5;

/**
 * The keep-alive Agent of one pod. Whatever host a request names, the Agent's sockets go to this pod. A request only gets a socket that is
 * already open; until then it can move to another pod.
 */
export class PodAgent extends nodeHttp.Agent {
  readonly #parts: PodAgentParts;
  /** The options that Node's Agent gets for every request, because sockets to a pod do not depend on a request's own options. */
  readonly #options: { readonly host: string; readonly port: number; readonly servername: '' };
  readonly #name: string;
  readonly #idle: IdleSockets;
  /** The sockets that belong to their caller since an upgrade. */
  readonly #detached = new WeakSet<Socket>();
  /** The open socket that Node's Agent is about to get for the request that is being assigned one. */
  #fresh: Socket | undefined;
  #closing = false;
  #cut = false;

  constructor(parts: PodAgentParts) {
    // The Agent has no limits of its own, because the balancer sends the pod no more requests than `connections`.
    super({ keepAlive: true, maxFreeSockets: parts.connections });
    const { endpoint, origin, clock } = parts;
    this.#parts = parts;
    this.#idle = new IdleSockets(clock, systemClock);
    this.#options = { host: endpoint.address, port: endpoint.port, servername: '' };
    this.#name = endpointAddress(endpoint);
    setProtocol(this, origin.protocol, origin.protocol === 'https:' ? 443 : 80);
    inheritOptions(this);
  }

  /** Whether evenkeel has cut the sockets of this pod. */
  get isCut(): boolean {
    return this.#cut;
  }

  get signals(): PodSignals {
    return this.#parts.pod.socketSet.signals;
  }

  /** Whether the socket belongs to the request's caller since an upgrade. */
  isDetached(socket: Duplex): boolean {
    return this.#detached.has(socket as Socket);
  }

  /** A request was lost with its socket. @param unanswered Whether that happened on a reused connection, before any byte of a response. */
  lost(error: Error, unanswered: boolean): void {
    if (unanswered) this.#idle.trial.lost();
    this.#parts.pod.lost(error);
  }

  /** Takes a request; `http.request` calls this method for each request with this agent. */
  addRequest(request: ClientRequest): void {
    this.findSocket({
      request,
      wanted: true,
      movable: true,
      podLeft: false,
      assigned: () => {},
      refused: (error) => endWithoutSocket(request, error),
    });
  }

  /** Finds a socket for a request: an idle one, the spare one, or a new one. May call back at once. */
  findSocket(seeker: SocketSeeker): void {
    if (this.#refuses(seeker)) return;
    const idleMs = this.#idle.newestMs(this.#free);
    if (idleMs === undefined && !this.#parts.pod.socketSet.hasSpare) this.#dial(seeker);
    else if (!this.#idle.trial.isPassed && idleMs !== undefined)
      this.#waitForRested(seeker, this.#idle.trial.deadlineMs);
    else if (idleMs !== undefined && idleMs <= CHECK_AFTER_MS) this.#assignSocket(seeker, undefined);
    else afterPendingIo(() => this.#findSocketNow(seeker, Number.NEGATIVE_INFINITY));
  }

  /** Accepts no more requests; running requests finish, and then their sockets close. */
  stop(): void {
    this.#closing = true;
    this.#idle.stop();
    for (const sockets of Object.values(this.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  /** Cuts all sockets to the pod, including upgraded ones. */
  cut(): void {
    this.#cut = true;
    this.#parts.pod.cut();
  }

  override getName(): string {
    return this.#name;
  }

  /**
   * Returns the socket that `#assignSocket` found for a request; Node calls this. If a library in between destroyed an idle socket, as nock and msw
   * do with sockets older than themselves, there is none, and a new one is opened.
   */
  override createConnection(_options: unknown, created: SocketCreated): Duplex | undefined {
    const socket = this.#fresh;
    if (socket === undefined) {
      this.#dialHere((error, dialled) => {
        if (error !== undefined) created(error);
        else created(null, this.#watched(dialled));
      });
      return undefined;
    }
    this.#fresh = undefined;
    enterContext(socket);
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

  /** Called when a request has ended in order. Returns whether its socket is kept for another request. */
  override keepSocketAlive(duplex: Duplex): boolean {
    const socket = duplex as Socket;
    const request = requestOn(socket);
    const { pod, connections, keepAliveTimeoutMs } = this.#parts;
    if (this.#closing || pod.socketSet.open > connections) return false;
    const hint = request && responseOf(request)?.headers['keep-alive'];
    const limitMs = keepAliveMs(keepAliveTimeoutMs, hint);
    if (limitMs === 0) return false;
    if (request?.reusedSocket) this.#idle.trial.passed();
    this.#idle.add(socket, limitMs);
    socket.unref();
    // A request's timeout must not affect the next request: some clients leave listeners for it on their sockets.
    if (socket.timeout) socket.setTimeout(0);
    return true;
  }

  override reuseSocket(duplex: Duplex, request: ClientRequest): void {
    const socket = duplex as Socket;
    super.reuseSocket(socket, request);
    this.#idle.remove(socket);
  }

  /**
   * Finds a socket for a request while it is not known whether the pod keeps its connections open: the request uses a connection that has rested, waits
   * for one, or gets a new one.
   */
  #waitForRested(seeker: SocketSeeker, untilMs: number): void {
    const reuse = this.#idle.decide(this.#free as Socket[], untilMs, this.#isFull);
    if (reuse === 'use') afterPendingIo(() => this.#findSocketNow(seeker, untilMs));
    else if (reuse === 'dial') this.#dial(seeker);
    // The clock's timers have no async context, but the request's events need the caller's.
    else this.#idle.trial.wait(AsyncResource.bind(() => afterPendingIo(() => this.#findSocketNow(seeker, untilMs))));
  }

  /** Node's list of the pod's idle sockets, oldest first. */
  get #free(): Socket[] | undefined {
    return freeSocketsOf(this, this.#name);
  }

  get #isFull(): boolean {
    const { pod, connections } = this.#parts;
    return pod.socketSet.open + pod.socketSet.connecting >= connections;
  }

  /**
   * Assigns a request an idle socket, or opens one. @param untilMs Until when the request may wait for a connection that has rested, as
   * a time.
   */
  #findSocketNow(seeker: SocketSeeker, untilMs: number): void {
    if (!seeker.wanted || this.#refuses(seeker)) return;
    const { trial } = this.#idle;
    const hasIdle = this.#idle.newestMs(this.#free) !== undefined;
    if (hasIdle && (trial.isPassed || this.#putForward(seeker, untilMs))) {
      this.#assignSocket(seeker, undefined);
      return;
    }
    const spare = this.#parts.pod.socketSet.takeSpare();
    if (spare !== undefined) this.#assignSocket(seeker, spare);
    else if (hasIdle) this.#waitForRested(seeker, untilMs);
    else this.#dial(seeker);
  }

  #putForward({ request }: SocketSeeker, untilMs: number): boolean {
    return this.#idle.putForward(this.#free as Socket[], request, untilMs, this.#isFull);
  }

  #dial(seeker: SocketSeeker): void {
    this.#dialHere((error, socket) => {
      if (error !== undefined) {
        if (seeker.wanted) seeker.refused(error);
      } else if (!seeker.wanted || this.#refuses(seeker)) this.#keepSpare(socket);
      else this.#assignSocket(seeker, socket);
    });
  }

  /**
   * Opens a socket, and calls `dialled` in the caller's async context. A dial may begin when another request's dial has ended, and end
   * because of a timer or because the pod has left.
   */
  #dialHere(dialled: Dialled): void {
    this.#parts.pod.dial(AsyncResource.bind(dialled));
  }

  /** Refuses a request that must no longer be sent to this pod, and returns whether it did. */
  #refuses(seeker: SocketSeeker): boolean {
    // The most expensive check comes last, because nearly every pod stays.
    if (this.#cut || ((this.#closing || seeker.podLeft) && seeker.movable)) {
      seeker.refused(new Error(`the connection to ${this.#name} is being given up`));
      return true;
    }
    return false;
  }

  /** Lets Node's Agent assign a socket to the request: `fresh` if there is one, otherwise its newest idle socket. */
  #assignSocket(seeker: SocketSeeker, fresh: Socket | undefined): void {
    this.#fresh = fresh;
    seeker.assigned();
    // Idle sockets that have not rested are hidden from Node's Agent.
    if (fresh !== undefined && !this.#idle.trial.isPassed) {
      withoutFreeSockets(this, this.#name, () => addRequest(this, seeker.request, this.#options));
    } else addRequest(this, seeker.request, this.#options);
    const unusedSocket = this.#fresh;
    this.#fresh = undefined;
    if (unusedSocket !== undefined) this.#keepSpare(unusedSocket);
  }

  /** Keeps an open socket that no request uses. */
  #keepSpare(socket: Socket): void {
    const { socketSet } = this.#parts.pod;
    if (this.#closing || socketSet.hasSpare) socket.destroy();
    else {
      socket.unref();
      socketSet.setAside(socket);
    }
  }
}
