import type { Socket } from 'node:net';
import { type ConnectionOptions, createSecureContext, type TLSSocket } from 'node:tls';
import { type Connection, type Endpoint, EvenkeelError, endpointAddress, type Transport } from '../../index.js';
import { watchCertificates } from '../http/certificates.js';
import { bareHost, checkReturnedTls, TLS_FUNCTION_SHARE } from '../http/dial.js';
import { PodSignals } from '../http/pod-signals.js';
import {
  asError,
  ConnectionGroup,
  deadline,
  isPromise,
  openSocket,
  perEndpointError,
  type ValueWatch,
  valueFor,
} from '../kit/index.js';
import type { ResolvedHttp2Options } from './options.js';
import { Http2Session, Keepalive, type SessionContext } from './session.js';

/** Creates the transport that opens HTTP/2 sessions to pods. With TLS, the certificate must name the host of `origin`. */
export function http2Transport(origin: URL, options: ResolvedHttp2Options): Transport<PodSessions> {
  const context: SessionContext = { origin, options, keepalive: new Keepalive(options.pingIntervalMs) };
  return {
    async connect(endpoint: Endpoint, signal: AbortSignal) {
      signal.throwIfAborted();
      const pod = new PodSessions(endpoint, context);
      const aborted = (): void => pod.cut('connecting was called off');
      signal.addEventListener('abort', aborted, { once: true });
      try {
        await pod.opened;
        return pod;
      } catch (error) {
        throw signal.aborted ? signal.reason : error;
      } finally {
        signal.removeEventListener('abort', aborted);
      }
    },
  };
}

/** The HTTP/2 sessions to one pod: the first is opened at once, others when all have as many streams as they may. */
export class PodSessions implements Connection<PodSessions> {
  readonly opened: Promise<void>;
  readonly closed: Promise<Error | undefined>;
  readonly outdated?: Promise<void>;
  /** The error that ended the last session to the pod; undefined while a session is open, and after an orderly end. */
  failure: Error | undefined;
  readonly signals: PodSignals = new PodSignals(() => [...this.#open].flatMap(({ socket }) => socket ?? []));
  readonly #endpoint: Endpoint;
  readonly #context: SessionContext;
  readonly #group: ConnectionGroup<Http2Session>;
  /** The sessions to the pod that are not closed. */
  readonly #open = new Set<Http2Session>();
  readonly #watch: ValueWatch<ConnectionOptions> | undefined;
  #settleClosed!: (error: Error | undefined) => void;

  constructor(endpoint: Endpoint, context: SessionContext) {
    this.#endpoint = endpoint;
    this.#context = context;
    this.#watch = watchCertificates(context.options.tls, endpoint, context.options);
    if (this.#watch !== undefined) this.outdated = this.#watch.outdated;
    const { connections, clock, rng } = context.options;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.#group = new ConnectionGroup<Http2Session>({
      open: (events) => {
        const session: Http2Session = new Http2Session(
          endpoint,
          context,
          (signal) => this.#dial(signal),
          events,
          () => this.#group.countCapacity(),
        );
        this.#open.add(session);
        void session.closed.then((error) => {
          this.#open.delete(session);
          if (this.#open.size === 0) this.#ended(error);
        });
        return session;
      },
      connections,
      neverOpened: (reason) => new EvenkeelError('EVENKEEL_CONNECT', reason),
      clock,
      rng,
    });
    this.opened = this.#group.opened;
  }

  get handle(): PodSessions {
    return this;
  }

  get capacity(): number {
    return this.#group.capacity;
  }

  get sockets(): number {
    return this.#open.size;
  }

  get leaving(): Promise<void> {
    return this.#group.leaving;
  }

  watchCapacity(changed: () => void): void {
    this.#group.watchCapacity(changed);
  }

  /** Returns the session for the next request; undefined from the loss of the last session until the pool notices the loss. */
  next(): Http2Session | undefined {
    return this.#group.next();
  }

  callStarted(session: Http2Session): void {
    if (session.streams === 0) session.ref(true);
    this.#group.callStarted(session);
  }

  callEnded(session: Http2Session): void {
    this.#group.callEnded(session);
    if (session.streams > 0) return;
    session.ref(false);
    session.endIfIdle();
  }

  /** Checks the pod's health: with `healthPath`, a GET must return a status below 400; without it, the pod must answer a PING. */
  async ping(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const session = this.next();
    if (session === undefined) throw new Error('the connection was just lost');
    const { healthPath } = this.#context.options;
    if (healthPath === undefined) return session.ping(signal);
    const status = await this.#ask(session, healthPath, signal);
    if (!(status < 400)) throw new Error(`${healthPath.replace(/\?.*/s, '?…')} answered ${status}`);
  }

  /** Lets running requests to the pod finish; cuts them when `signal` aborts. */
  async close(signal?: AbortSignal): Promise<void> {
    const cut = (): void => this.cut('it is closed');
    if (signal?.aborted) cut();
    else signal?.addEventListener('abort', cut, { once: true });
    await this.#group.close(signal);
    await this.closed;
    signal?.removeEventListener('abort', cut);
  }

  /** Ends every session to the pod, and all requests on these sessions. */
  cut(reason: string): void {
    for (const session of this.#open) session.cut();
    this.#group.release(reason);
  }

  /** The last session to the pod is closed. */
  #ended(error: Error | undefined): void {
    this.#watch?.close();
    this.failure = error;
    this.#settleClosed(error);
  }

  #ask(session: Http2Session, path: string, signal: AbortSignal): Promise<number> {
    return new Promise((resolve, reject) => {
      const stream = session.request({ ':method': 'GET', ':path': path }, { signal });
      this.callStarted(session);
      let status = 0;
      stream.on('response', (headers) => {
        status = Number(headers[':status']);
      });
      stream.resume();
      stream.on('error', (error) => reject(signal.aborted ? signal.reason : error));
      stream.on('close', () => {
        this.callEnded(session);
        if (status === 0) reject(new Error(`no response (${stream.rstCode})`));
        else resolve(status);
      });
    });
  }

  async #dial(signal: AbortSignal): Promise<Socket> {
    const { origin } = this.#context;
    if (origin.protocol === 'http:') return openSocket(this.#endpoint, signal);
    const tls = await this.#tls();
    signal.throwIfAborted();
    const host = bareHost(origin);
    const socket = await openSocket(this.#endpoint, signal, { host, tls: { ...tls, ALPNProtocols: ['h2'] } });
    if ((socket as TLSSocket).alpnProtocol === 'h2') return socket;
    socket.destroy();
    const address = endpointAddress(this.#endpoint);
    throw new EvenkeelError('EVENKEEL_CONNECT', `${address} does not speak HTTP/2 over TLS`, { endpoint: address });
  }

  /** The TLS settings for a new session. Those of a function must arrive in time, and be such that Node can use them. */
  async #tls(): Promise<ConnectionOptions> {
    const endpoint = this.#endpoint;
    const { tls } = this.#context.options;
    if (typeof tls !== 'function') return tls;
    const watch = this.#watch;
    const settings = valueFor('tls', watch === undefined ? tls : () => watch.read(), endpoint, checkReturnedTls);
    const answer = isPromise(settings) ? await this.#inTime(settings) : settings;
    try {
      return { ...answer, secureContext: answer.secureContext ?? createSecureContext(answer) };
    } catch (error) {
      throw perEndpointError('tls', endpoint, `returned what cannot be used: ${asError(error).message}`, error);
    }
  }

  /** Resolves as the promise of a `tls` function does, which may take nearly as long as connecting may. */
  #inTime(settings: Promise<ConnectionOptions>): Promise<ConnectionOptions> {
    const { clock, connectTimeoutMs } = this.#context.options;
    const limitMs = TLS_FUNCTION_SHARE * connectTimeoutMs;
    return new Promise((resolve, reject) => {
      const late = (): void => reject(perEndpointError('tls', this.#endpoint, `took more than ${limitMs} ms`));
      const timer = deadline(clock, late, limitMs);
      void settings.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}
