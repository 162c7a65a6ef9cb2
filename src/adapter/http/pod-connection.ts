import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { Clock, Connection, Endpoint, Rng } from '../../index.js';
import { AskedWatch, Closing, isSameIdentity } from '../kit/index.js';
import { type DialOptions, dialler } from './dial.js';
import { dialFirst, PodLink } from './pod-link.js';
import { shownCertificate } from './shown-certificate.js';

/** What the connection of every HTTP adapter is made of. */
export interface PodConnectionParts {
  readonly endpoint: Endpoint;
  readonly dial: DialOptions;
  /** Sockets at most, and so requests at once over HTTP/1.1. */
  readonly connections: number;
  readonly healthPath: string | undefined;
  /** How often a function that is asked for TLS settings is asked while this is open, in ms; Infinity = never. */
  readonly credentialsRefreshMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** The HTTP client an adapter gives the sockets of one pod to. */
export interface PodUser<C> {
  readonly handle: C;
  /** Asks for `path` and resolves with the status once the answer is complete. */
  ask(path: string, signal: AbortSignal): Promise<number | undefined>;
  /** Takes no new request and lets those that run end; resolves when no socket is left. Never rejects. */
  finish(): Promise<void>;
  /** Ends what runs, also when `finish` is under way. */
  cut(): void;
}

/** How an adapter uses a pod whose first socket is open. */
export interface PodUse<C> {
  /** Requests at once on a pod that speaks what was agreed on over this socket. */
  capacity(first: Socket): number;
  user(link: PodLink, first: Socket): PodUser<C>;
}

/** Opens the first socket to an endpoint and wraps it. Rejects with what went wrong; after an abort nothing is open. */
export async function openPodConnection<C>(
  parts: PodConnectionParts,
  use: PodUse<C>,
  signal: AbortSignal,
): Promise<PodConnection<C>> {
  const { clock, rng, healthPath } = parts;
  const watch = watchOf(parts);
  const dial = dialler(parts.endpoint, watch === undefined ? parts.dial : { ...parts.dial, tls: () => watch.ask() });
  let first: Socket;
  try {
    first = await dialFirst(dial, signal);
    if (watch !== undefined) await shownCertificate(first, parts.dial.connectTimeoutMs, signal);
  } catch (error) {
    watch?.close();
    throw error;
  }
  const gone = (): void => void connection.close();
  const link = new PodLink({ endpoint: parts.endpoint, dial, first, capacity: use.capacity(first), clock, rng, gone });
  const connection = new PodConnection(link, use.user(link, first), healthPath, watch);
  return connection;
}

/** Over the function that is asked for TLS settings, if there is one and it may answer otherwise one day. */
function watchOf({ endpoint, dial, credentialsRefreshMs, clock, rng }: PodConnectionParts): TlsWatch | undefined {
  const { tls, origin } = dial;
  if (typeof tls !== 'function' || origin.protocol !== 'https:' || !Number.isFinite(credentialsRefreshMs))
    return undefined;
  return new AskedWatch({
    clock,
    rng,
    refreshMs: credentialsRefreshMs,
    ask: () => tls(endpoint),
    isSame: isSameIdentity,
  });
}

type TlsWatch = AskedWatch<ConnectionOptions>;

/** One pod: an HTTP client whose sockets go to its address. The first one is opened ahead of the first request. */
export class PodConnection<C> implements Connection<C> {
  readonly handle: C;
  readonly outdated?: Promise<void>;
  readonly #link: PodLink;
  readonly #user: PodUser<C>;
  readonly #healthPath: string | undefined;
  readonly #watch: TlsWatch | undefined;
  readonly #closing = new Closing(
    () => {
      this.#watch?.close();
      this.#link.stop();
      return this.#user.finish();
    },
    () => this.#user.cut(),
  );

  constructor(link: PodLink, user: PodUser<C>, healthPath: string | undefined, watch: TlsWatch | undefined) {
    this.#watch = watch;
    if (watch !== undefined) {
      this.outdated = watch.outdated;
      void link.closed.then(() => watch.close());
    }
    this.handle = user.handle;
    this.#link = link;
    this.#user = user;
    this.#healthPath = healthPath;
  }

  get capacity(): number {
    return this.#link.capacity;
  }

  watchCapacity(changed: () => void): void {
    this.#link.watchCapacity(changed);
  }

  get closed(): Promise<Error | undefined> {
    return this.#link.closed;
  }

  get leaving(): Promise<void> {
    return this.#link.leaving;
  }

  left(): void {
    this.#link.left();
  }

  returned(): void {
    this.#link.returned();
  }

  /** With `healthPath`, asks for it and wants a status below 400; else opens a socket to see whether the pod accepts. */
  async ping(signal: AbortSignal): Promise<void> {
    const path = this.#healthPath;
    signal.throwIfAborted();
    if (path === undefined) {
      await this.#link.connectProbe(signal);
      return;
    }
    const status = await this.#user.ask(path, signal);
    if (status === undefined || status >= 400) throw new Error(`${path.replace(/\?.*/s, '?…')} answered ${status}`);
  }

  /** A request died with its socket. */
  lost(error: Error): void {
    this.#link.lost(error);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }
}
