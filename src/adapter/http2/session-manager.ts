import type { ClientHttp2Stream, ClientSessionRequestOptions, OutgoingHttpHeaders } from 'node:http2';
import { type Balancer, type ErrorCode, isEvenkeelError } from '../../index.js';
import { BalancedHttp2 } from './client.js';
import { ConnectStream } from './connect-stream.js';
import type { Http2Options } from './options.js';

/** A session manager for the transports of `@connectrpc/connect-node` that sends calls to the pods of one Service. */
export interface ServiceSessionManager extends AsyncDisposable {
  /** The session manager's balancer, for its state and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /** The origin of the Service, `scheme://host:port`. The transport's `baseUrl` must have the same origin. */
  readonly authority: string;
  /**
   * Picks a pod for a call and sends the call there. Called by Connect's transport. The stream has what Connect uses of Node's stream, not
   * all of it: `createHttp2Client` is for requests of your own.
   */
  request(
    method: string,
    path: string,
    headers: OutgoingHttpHeaders,
    options: Omit<ClientSessionRequestOptions, 'signal'>,
  ): Promise<ClientHttp2Stream>;
  /** Called by Connect's transport for each chunk of a response. */
  notifyResponseByteRead(stream: ClientHttp2Stream): void;
  /**
   * Accepts no new call. Waiting calls still get a pod and running ones finish, for at most `pool.drainTimeoutMs` (30 s if that is not
   * set); then they are cut.
   */
  close(): Promise<void>;
}

/**
 * Creates what the transports of `@connectrpc/connect-node` take as `sessionManager`, with `httpVersion: '2'`: each call of Connect, gRPC
 * or gRPC-web goes to one of the pods of a Service. Over `http:` it speaks HTTP/2 with prior knowledge (h2c). Must be closed.
 *
 * @param target `http://name:port` or `https://name:port`, as the transport's `baseUrl`.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example
 * const baseUrl = 'http://orders.shop:8080';
 * const sessionManager = createSessionManager(baseUrl);
 * const transport = createConnectTransport({ baseUrl, httpVersion: '2', sessionManager });
 */
export function createSessionManager(target: string | URL, options: Http2Options = {}): ServiceSessionManager {
  return new SessionManager(target, options);
}

class SessionManager implements ServiceSessionManager {
  readonly #client: BalancedHttp2;

  constructor(target: string | URL, options: Http2Options) {
    this.#client = new BalancedHttp2(target, options, { Stream: ConnectStream, errorFor: asConnectError });
  }

  get balancer(): Balancer<unknown> {
    return this.#client.balancer;
  }

  get authority(): string {
    return this.#client.authority;
  }

  async request(
    method: string,
    path: string,
    headers: OutgoingHttpHeaders,
    options: Omit<ClientSessionRequestOptions, 'signal'>,
  ): Promise<ClientHttp2Stream> {
    return this.#client.send({ ...headers, ':method': method, ':path': path }, options);
  }

  notifyResponseByteRead(): void {
    // Nothing needs to be done here, because evenkeel's sessions notice themselves when something arrives.
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Connect's codes for errors of evenkeel. Every error that is not listed here becomes `unavailable`. */
const connectCodes: Partial<Record<ErrorCode, { readonly name: string; readonly code: number }>> = {
  EVENKEEL_QUEUE_FULL: { name: 'resource_exhausted', code: 8 },
  EVENKEEL_OVERLOAD: { name: 'resource_exhausted', code: 8 },
  EVENKEEL_TOO_LATE: { name: 'resource_exhausted', code: 8 },
  EVENKEEL_DEADLINE: { name: 'deadline_exceeded', code: 4 },
  EVENKEEL_OPTION: { name: 'internal', code: 13 },
};
const unavailable = { name: 'unavailable', code: 14 };

/**
 * Converts an error of evenkeel into one that Connect recognizes as a ConnectError: `instanceof ConnectError` looks at properties, so
 * nothing of Connect has to be imported. Other errors are returned unchanged, because Connect converts Node's errors itself.
 */
export function asConnectError(error: Error): Error {
  if (!isEvenkeelError(error)) return error;
  const { name, code } = connectCodes[error.code] ?? unavailable;
  return Object.assign(new Error(`[${name}] ${error.message}`, { cause: error }), {
    name: 'ConnectError',
    code,
    rawMessage: error.message,
    metadata: new Headers(),
    details: [],
  });
}
