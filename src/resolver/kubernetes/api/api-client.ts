import { createHash } from 'node:crypto';
import type { Agent as HttpAgent, IncomingMessage, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { orAborted } from '../../../runtime/abort-listeners.js';
import type { Clock } from '../../../runtime/clock.js';
import { nodeHttp } from '../../../runtime/node-http.js';
import type { ApiSession, ApiTarget } from './api-access.js';

/**
 * The function `request` of node:http, taken when this file is loaded. Tracing libraries replace it later, in order to see the
 * application's requests; those of evenkeel should not appear there.
 */
const { request: httpRequest } = nodeHttp;

/**
 * How long a connection to the API server may be silent before TCP keep-alive probes it, in ms. After that, Node sends one probe a second
 * and closes the connection after ten unanswered ones.
 */
const KEEP_ALIVE_MS = 30_000;

/** The longest pause requested by a server or proxy that is kept, in ms. A longer one is cut to this. */
const MAX_RETRY_AFTER_MS = 600_000;

/** One GET request to the API server. */
export interface ApiRequest {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Whether the response may be compressed. Those of watches never are. */
  readonly gzip?: boolean;
  /** Aborts the request, whether it is being sent, waiting for a response, or reading one. */
  readonly signal: AbortSignal;
}

/** A response whose headers have arrived. Its body must be read or discarded. */
export interface ApiReply {
  readonly status: number;
  /** The pause that the server requested by `Retry-After`, in ms. */
  readonly retryAfterMs: number | undefined;
  /**
   * Reads the response's body to its end. `onData` is called for each chunk as it arrives; if `onData` throws, reading stops and the
   * promise rejects with the error. Rejects when the body is cut short or the request was aborted.
   */
  read(onData: (chunk: Uint8Array) => void): Promise<void>;
  /** Releases the response's body and its connection without reading further. */
  discard(): void;
}

/** Sends GET requests to one API server. The client knows HTTP and credentials, but nothing about Kubernetes lists and watches. */
export interface ApiClient {
  /** The URL of the server of the last request; undefined before the first. */
  readonly server: string | undefined;
  /**
   * Sends a request and waits for the headers of the response. Rejects with a ResolveError if there are no credentials, with the network
   * error if the connection fails, and with the signal's reason if the request is aborted.
   */
  get(request: ApiRequest): Promise<ApiReply>;
  /** Closes connections that wait for a request: the next one gets a new connection. */
  dropIdle(): void;
  /** Closes every connection of the client. */
  close(): void;
}

/** A client of an API server over node:https, or node:http if the server's URL says so. */
export class HttpApiClient implements ApiClient {
  readonly #session: ApiSession;
  readonly #clock: Clock;
  readonly #keepsProcessAlive: boolean;
  #agent: HttpAgent | HttpsAgent | undefined;
  /** A hash of the certificates and keys that the agent's connections were made with. When they change, a new agent is needed. */
  #agentKey: string | undefined;
  #server: string | undefined;
  #closed = false;

  constructor(session: ApiSession, clock: Clock, keepsProcessAlive: boolean) {
    this.#session = session;
    this.#clock = clock;
    this.#keepsProcessAlive = keepsProcessAlive;
  }

  get server(): string | undefined {
    return this.#server;
  }

  async get(request: ApiRequest): Promise<ApiReply> {
    const sentAtMs = this.#clock.now();
    const reply = await this.#attempt(request);
    if (reply.status !== 401) return reply;
    // Status 401 may mean that the token has just been replaced: read it again and try once more.
    reply.discard();
    this.#session.refused(sentAtMs);
    return await this.#attempt(request);
  }

  dropIdle(): void {
    if (this.#agent !== undefined) retire(this.#agent);
    this.#agent = undefined;
  }

  close(): void {
    this.#closed = true;
    this.#agent?.destroy();
    this.#agent = undefined;
  }

  async #attempt(request: ApiRequest): Promise<ApiReply> {
    // A function of the application that returns a token may never settle.
    const target = await orAborted(this.#session.target(), request.signal);
    const sentAtMs = this.#clock.now();
    this.#server = target.server;
    try {
      return await this.#send(request, target);
    } catch (error) {
      if (isStaleSocket(error)) return await this.#send(request, target);
      // The credentials may have been replaced, or read half-way through that: a token with a line too many, a key of another certificate.
      this.#session.refused(sentAtMs);
      throw error;
    }
  }

  #send(request: ApiRequest, target: ApiTarget): Promise<ApiReply> {
    const url = new URL(`${target.server}${request.path}?${new URLSearchParams(request.query)}`);
    const secure = url.protocol === 'https:';
    const options: RequestOptions = {
      method: 'GET',
      headers: {
        accept: 'application/json',
        'user-agent': 'evenkeel',
        ...(request.gzip ? { 'accept-encoding': 'gzip' } : {}),
        ...target.headers,
      },
      agent: (target.agent as HttpAgent | undefined) ?? this.#agentFor(target, secure),
    };
    return new Promise((resolve, reject) => {
      const { signal } = request;
      const sent = (secure ? httpsRequest : httpRequest)(url, options);
      const abort = (): void => {
        sent.destroy();
        reject(signal.reason);
      };
      signal.addEventListener('abort', abort, { once: true });
      sent.on('socket', (socket) => {
        // A connection that only waits for changes must not keep the process from ending.
        if (!this.#keepsProcessAlive) socket.unref();
        socket.setKeepAlive(true, KEEP_ALIVE_MS);
      });
      sent.on('response', (response) => {
        signal.removeEventListener('abort', abort);
        resolve(new HttpApiReply(response, request.gzip === true, signal));
      });
      sent.on('error', (error) => {
        signal.removeEventListener('abort', abort);
        reject(signal.aborted ? signal.reason : Object.assign(error, { reused: sent.reusedSocket }));
      });
      sent.end();
    });
  }

  #agentFor(target: ApiTarget, secure: boolean): HttpAgent | HttpsAgent {
    const { ca, cert, key, passphrase, servername, rejectUnauthorized } = target.tls;
    const material = [secure, ca, cert, key, passphrase, servername, rejectUnauthorized];
    const agentKey = createHash('sha256').update(JSON.stringify(material)).digest('base64');
    if (this.#agent === undefined || this.#agentKey !== agentKey) {
      if (this.#agent !== undefined) retire(this.#agent);
      const common = { keepAlive: true, keepAliveMsecs: KEEP_ALIVE_MS };
      this.#agent = secure
        ? new HttpsAgent({
            ...common,
            ...(ca === undefined ? {} : { ca }),
            ...(cert === undefined ? {} : { cert }),
            ...(key === undefined ? {} : { key }),
            ...(passphrase === undefined ? {} : { passphrase }),
            ...(servername === undefined ? {} : { servername }),
            ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
          })
        : new nodeHttp.Agent(common);
      this.#agentKey = agentKey;
      if (this.#closed) retire(this.#agent);
    }
    return this.#agent;
  }
}

class HttpApiReply implements ApiReply {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly #response: IncomingMessage;
  /** Whether the request allowed a compressed response; otherwise the body is not unpacked. */
  readonly #mayBeGzip: boolean;
  readonly #signal: AbortSignal;

  constructor(response: IncomingMessage, mayBeGzip: boolean, signal: AbortSignal) {
    this.status = response.statusCode ?? 0;
    this.retryAfterMs = parseRetryAfter(response.headers['retry-after']);
    this.#response = response;
    this.#mayBeGzip = mayBeGzip;
    this.#signal = signal;
    // An error of the response that happens before its body is read is reported by `read`. Without this listener it would end the
    // process.
    response.on('error', () => {});
  }

  read(onData: (chunk: Uint8Array) => void): Promise<void> {
    const response = this.#response;
    const signal = this.#signal;
    return new Promise((resolve, reject) => {
      let body: Readable = response;
      const settle = (error: unknown): void => {
        signal.removeEventListener('abort', abort);
        response.destroy();
        // Stop decompressing what was already received of the body: a little compressed data may expand to very much.
        body.removeAllListeners('data');
        body.destroy();
        reject(error);
      };
      const abort = (): void => settle(signal.reason);
      if (signal.aborted || response.destroyed) {
        settle(signal.aborted ? signal.reason : new Error('the connection was closed'));
        return;
      }
      signal.addEventListener('abort', abort, { once: true });
      if (this.#mayBeGzip && response.headers['content-encoding'] === 'gzip') body = gunzip(response);
      body.on('data', (chunk: Uint8Array) => {
        try {
          onData(chunk);
        } catch (error) {
          settle(error);
        }
      });
      body.on('end', () => {
        signal.removeEventListener('abort', abort);
        resolve();
      });
      body.on('error', settle);
      response.on('error', settle);
      // A truncated body may end without an error event.
      response.on('close', () => {
        if (!response.complete) settle(Object.assign(new Error('the body was cut short'), { code: 'ECONNRESET' }));
      });
    });
  }

  discard(): void {
    this.#response.destroy();
  }
}

function gunzip(response: IncomingMessage): Readable {
  const body = createGunzip();
  response.on('close', () => {
    if (!response.complete) body.destroy();
  });
  return response.pipe(body);
}

/** Closes the idle connections of an agent now, and the others when their request is done. */
function retire(agent: HttpAgent | HttpsAgent): void {
  agent.maxFreeSockets = 0;
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

/**
 * Whether the error came from a kept-alive connection that the server had already closed. In that case the server has not answered
 * anything, so the GET request can be repeated on a new connection.
 */
function isStaleSocket(error: unknown): boolean {
  const { code, reused } = error as { readonly code?: string; readonly reused?: boolean };
  return reused === true && (code === 'ECONNRESET' || code === 'EPIPE');
}

function parseRetryAfter(value: string | undefined): number | undefined {
  // The API server sends `Retry-After` as a number of seconds. The other form that HTTP allows, a date, is ignored: it would depend on
  // the clocks of both machines.
  if (value === undefined || !/^\d{1,9}$/.test(value.trim())) return undefined;
  return Math.min(Number(value) * 1_000, MAX_RETRY_AFTER_MS);
}
