import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { errors, Pool } from 'undici';
import type { Clock, Connection, Endpoint, Rng } from '../../index.js';
import { Closing } from '../http/closing.js';
import { type Dialled, type DialOptions, dialler } from '../http/dial.js';
import { dialFirst, PodLink } from '../http/pod-link.js';
import { PodClient } from './pod-client.js';
import { SilenceWatch } from './silence-watch.js';

/** What a `PodConnection` is made of. */
export interface PodConnectionParts {
  readonly endpoint: Endpoint;
  readonly dial: DialOptions;
  /** Options of undici's pool, as they are. */
  readonly pool: Pool.Options;
  /** Requests at once over HTTP/1.1, one per socket, and over HTTP/2, all on one. */
  readonly connections: number;
  readonly maxConcurrentStreams: number;
  readonly healthPath: string | undefined;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** Opens the first socket to an endpoint and wraps it. Rejects with what went wrong; after an abort nothing is open. */
export async function openPodConnection(parts: PodConnectionParts, signal: AbortSignal): Promise<PodConnection> {
  const dial = dialler(parts.endpoint, parts.dial);
  return new PodConnection(parts, dial, await dialFirst(dial, signal));
}

/**
 * One pod as undici knows it: a Pool whose origin is the Service and whose sockets go to the pod's address.
 * Its first socket is opened ahead of the first request and waits aside until the pool asks for one.
 */
export class PodConnection implements Connection<Pool> {
  readonly handle: Pool;
  readonly #parts: PodConnectionParts;
  readonly #link: PodLink;
  /** Over HTTP/2 only. */
  readonly #silence: SilenceWatch | undefined;
  readonly #closing = new Closing(
    () => this.#finish(),
    () => this.#cut(),
  );

  constructor(parts: PodConnectionParts, dial: (dialled: Dialled) => Socket, first: Socket) {
    this.#parts = parts;
    const { clock, rng } = parts;
    const multiplexed = (first as TLSSocket).alpnProtocol === 'h2';
    const capacity = multiplexed ? parts.maxConcurrentStreams : parts.connections;
    this.#link = new PodLink({ dial, first, capacity, clock, rng, gone: () => void this.close() });
    this.handle = new Pool(parts.dial.origin, {
      ...parts.pool,
      connections: multiplexed ? 1 : parts.connections,
      connect: (_options, supplied) => this.#supply(supplied as Supplied),
      factory: (origin, options) => new PodClient(origin, options),
    });
    if (multiplexed) this.#silence = this.#watchSilence();
  }

  get capacity(): number {
    return this.#link.capacity;
  }

  get closed(): Promise<Error | undefined> {
    return this.#link.closed;
  }

  get leaving(): Promise<void> {
    return this.#link.leaving;
  }

  /** With `healthPath`, asks for it and wants a status below 400; else opens a socket to see whether the pod accepts. */
  async ping(signal: AbortSignal): Promise<void> {
    const { healthPath, dial } = this.#parts;
    signal.throwIfAborted();
    if (healthPath === undefined) {
      await this.#link.knock(signal);
      return;
    }
    const response = await this.handle.request({ origin: dial.origin, path: healthPath, method: 'GET', signal });
    await response.body.dump();
    if (response.statusCode >= 400) throw new Error(`${healthPath} answered ${response.statusCode}`);
  }

  /** A request died with its socket. */
  lost(error: Error): void {
    this.#link.lost(error);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  async #finish(): Promise<void> {
    this.#link.stop();
    await this.handle.close().catch(() => {});
    // Upgraded connections are the pool's no longer, but they still are ours.
    await this.#link.finished();
    this.#silence?.close();
  }

  #cut(): void {
    const error = new errors.ClientDestroyedError();
    void this.handle.destroy(error).catch(() => {});
    this.#link.sockets.destroyAll(error);
  }

  #watchSilence(): SilenceWatch {
    const { sockets } = this.#link;
    const inUse = (): boolean => sockets.open > (sockets.hasSpare ? 1 : 0);
    return new SilenceWatch(
      this.#parts.clock,
      () => (inUse() ? sockets.received : undefined),
      (silentMs) => sockets.destroyAll(new errors.SocketError(`no answer to an HTTP/2 PING for ${silentMs} ms`)),
    );
  }

  /** The pool wants a socket: the spare one, or a new one. It must not be called back before it has returned. */
  #supply(supplied: Supplied): void {
    if (!this.#link.sockets.hasSpare) {
      this.#dialForPool(supplied);
      return;
    }
    queueMicrotask(() => {
      const socket = this.#link.sockets.takeSpare();
      if (socket === undefined) this.#dialForPool(supplied);
      else supplied(null, socket);
    });
  }

  #dialForPool(supplied: Supplied): void {
    this.#link.dial((error, socket) => {
      if (error === undefined) supplied(null, socket);
      else supplied(error, null);
    });
  }
}

/** What undici passes to a connector. */
type Supplied = (error: Error | null, socket: Socket | null) => void;
