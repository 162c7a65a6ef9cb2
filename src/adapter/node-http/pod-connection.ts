import { get } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Connection, Endpoint, Rng } from '../../index.js';
import { Closing } from '../http/closing.js';
import { type Dialled, type DialOptions, dialler } from '../http/dial.js';
import { dialFirst, PodLink } from '../http/pod-link.js';
import { PodAgent } from './pod-agent.js';

/** What a `PodConnection` is made of. */
export interface PodConnectionParts {
  readonly endpoint: Endpoint;
  readonly dial: DialOptions;
  /** Sockets, and so requests at once. */
  readonly connections: number;
  readonly keepAliveTimeoutMs: number;
  readonly healthPath: string | undefined;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** Opens the first socket to an endpoint and wraps it. Rejects with what went wrong; after an abort nothing is open. */
export async function openPodConnection(parts: PodConnectionParts, signal: AbortSignal): Promise<PodConnection> {
  const dial = dialler(parts.endpoint, parts.dial);
  return new PodConnection(parts, dial, await dialFirst(dial, signal));
}

/** One pod: a keep-alive Agent whose sockets go to its address. The first one is opened ahead of the first request. */
export class PodConnection implements Connection<PodAgent> {
  readonly handle: PodAgent;
  readonly #parts: PodConnectionParts;
  readonly #link: PodLink;
  readonly #closing = new Closing(
    () => this.#finish(),
    () => this.handle.cut(),
  );

  constructor(parts: PodConnectionParts, dial: (dialled: Dialled) => Socket, first: Socket) {
    this.#parts = parts;
    const { endpoint, connections, keepAliveTimeoutMs, clock, rng } = parts;
    const link = new PodLink({ dial, first, capacity: connections, clock, rng, gone: () => void this.close() });
    this.#link = link;
    this.handle = new PodAgent({
      endpoint,
      origin: parts.dial.origin,
      link,
      connections,
      keepAliveTimeoutMs,
      clock,
    });
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
    const { protocol, host } = dial.origin;
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = get({ agent: this.handle, protocol, path: healthPath, headers: { host }, signal }, (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode)).once('error', reject);
      });
      request.once('error', (error) => reject(signal.aborted ? signal.reason : error));
    });
    if (status === undefined || status >= 400) throw new Error(`${healthPath} answered ${status}`);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  async #finish(): Promise<void> {
    this.#link.stop();
    this.handle.stop();
    await this.#link.finished();
  }
}
