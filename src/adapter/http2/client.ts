import type { ClientHttp2Stream, OutgoingHttpHeaders } from 'node:http2';
import { type Balancer, type Clock, createBalancer, EvenkeelError } from '../../index.js';
import { resolverOf, serviceOrigin } from '../http/origin.js';
import { type TermRules, termsOf } from '../http/request-terms.js';
import { closeWhenServed, WaitingRequests } from '../http/waiting.js';
import {
  type AskForReports,
  balancingTable,
  checkKeys,
  offAbort,
  onAbort,
  ownProperties,
  pickerOf,
  pickNames,
  poolDefaults,
} from '../kit/index.js';
import { type CallOwner, Http2Call } from './call.js';
import type { CallStream, StreamOwner } from './call-stream.js';
import { type Http2Options, type Http2RequestOptions, requestOptionNames, resolveHttp2Options } from './options.js';
import { BalancedStream } from './stream.js';
import { http2Transport, type PodSessions } from './transport.js';

/** A session as `http2.connect` returns it, but over all pods of a Service. */
export interface ServiceHttp2Client extends AsyncDisposable {
  /** The client's balancer, for its state and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /**
   * The origin of the Service, such as `https://orders.shop` or `http://orders.shop:8080`; never that of a pod. A default port is left out.
   */
  readonly authority: string;
  /**
   * Sends a request to one of the pods. The pod is picked at once if one can take the request, else as soon as one can. `:authority` and
   * `:scheme` are the Service's unless the headers set others; TLS checks the Service's name in any case. The stream is returned at once,
   * and emits errors. It has everything of Node's stream except `priority` and pushed streams.
   */
  request(headers?: OutgoingHttpHeaders | readonly string[], options?: Http2RequestOptions): ClientHttp2Stream;
  /**
   * Accepts no new request. Waiting requests still get a pod and running ones finish, for at most `pool.drainTimeoutMs` (30 s if that is
   * not set); then they are cut.
   */
  close(): Promise<void>;
}

/**
 * Creates a client for one Service that speaks HTTP/2, used like a session of `http2.connect`: it keeps sessions to the pods and picks a
 * pod for every request. Over `http:` it speaks HTTP/2 with prior knowledge (h2c). Must be closed.
 *
 * @param target `http://name:port` or `https://name:port`. An IP address or `localhost` is one fixed endpoint.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example
 * const orders = createHttp2Client('https://orders.shop');
 * const stream = orders.request({ ':path': '/v1/orders/42' });
 */
export function createHttp2Client(target: string | URL, options: Http2Options = {}): ServiceHttp2Client {
  return new BalancedHttp2(target, options);
}

/** What the callers of a client get. */
export interface ClientFace {
  readonly Stream: new (owner: StreamOwner) => CallStream;
  /** Converts an error into the form that callers get. */
  readonly errorFor: (error: Error) => Error;
}

const nodeFace: ClientFace = { Stream: BalancedStream, errorFor: (error) => error };

/** The implementation of `createHttp2Client`, which session managers also use. */
export class BalancedHttp2 implements ServiceHttp2Client, CallOwner {
  readonly balancer: Balancer<PodSessions>;
  readonly authority: string;
  readonly clock: Clock;
  readonly askForReports: AskForReports;
  readonly #rules: TermRules<OutgoingHttpHeaders>;
  readonly #waiting = new WaitingRequests();
  readonly #drainTimeoutMs: number;
  readonly #face: ClientFace;
  #closing: Promise<void> | undefined;

  constructor(target: string | URL, options: Http2Options, face: ClientFace = nodeFace) {
    const origin = serviceOrigin('target', target);
    const own = ownProperties(options);
    const settings = resolveHttp2Options(origin, own);
    this.#rules = { key: settings.key, priority: settings.priority };
    this.authority = origin.origin;
    this.clock = settings.clock;
    this.askForReports = settings.askForReports;
    this.#face = face;
    const pool = ownProperties(own.pool ?? {});
    const { key } = own;
    this.#drainTimeoutMs = pool.drainTimeoutMs ?? poolDefaults.drainTimeoutMs;
    const balancing = pickNames(own, balancingTable.names);
    const picker = own.picker ?? (key === undefined ? undefined : pickerOf(key));
    this.balancer = createBalancer({
      ...balancing,
      ...(picker !== undefined && { picker }),
      // A stream may last for days, and its pod decides when it ends, so running streams are not cut when their pod leaves.
      pool: { ...pool, drainTimeoutMs: pool.drainTimeoutMs ?? Number.POSITIVE_INFINITY },
      resolver: own.resolver ?? resolverOf(origin),
      transport: http2Transport(origin, settings),
    });
  }

  get origin(): string {
    return this.authority;
  }

  request(headers: OutgoingHttpHeaders | readonly string[] = {}, options: Http2RequestOptions = {}): ClientHttp2Stream {
    checkKeys('options', options, requestOptionNames);
    return this.send(isRawList(headers) ? fromRawList(headers) : { ...headers }, options);
  }

  /** Sends a request. @param headers Headers that the call may change. */
  send(headers: OutgoingHttpHeaders, options: Http2RequestOptions): ClientHttp2Stream {
    const { signal, ...native } = ownProperties(options);
    const { key, priority } = termsOf(headers, this.#rules, undefined);
    const call = new Http2Call(this, headers, native, key);
    call.priority = priority;
    // The stream has what its callers use of Node's stream: all except priorities and pushed streams, or what Connect needs.
    const stream = call.stream as unknown as ClientHttp2Stream;
    if (endsAtOnce(headers, native)) call.stream.end();
    if (this.#closing !== undefined) {
      call.fail(new EvenkeelError('EVENKEEL_CLOSED', `${this.authority}: the client is closed`));
      return stream;
    }
    if (signal !== undefined) endWith(signal, call);
    if (!call.stream.destroyed) call.begin();
    return stream;
  }

  close(): Promise<void> {
    this.#closing ??= closeWhenServed({
      balancer: this.balancer,
      waiting: this.#waiting,
      clock: this.clock,
      drainTimeoutMs: this.#drainTimeoutMs,
    });
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  waits(): void {
    this.#waiting.add();
  }

  served(): void {
    this.#waiting.remove();
  }

  streamFor(owner: StreamOwner): CallStream {
    return new this.#face.Stream(owner);
  }

  errorFor(error: Error): Error {
    return this.#face.errorFor(error);
  }
}

const isRawList = (headers: OutgoingHttpHeaders | readonly string[]): headers is readonly string[] =>
  Array.isArray(headers);

/** Converts a list of alternating names and values, which Node takes from 22.17 and 24.2 on, to an object that every Node takes. */
function fromRawList(list: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null);
  for (let index = 0; index + 1 < list.length; index += 2) {
    const name = (list[index] as string).toLowerCase();
    const value = list[index + 1] as string;
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}

/** The methods of requests without a body: Node ends the body of such a request at once. */
const bodiless: ReadonlySet<unknown> = new Set(['GET', 'HEAD', 'DELETE']);

function endsAtOnce(headers: OutgoingHttpHeaders, { endStream }: Http2RequestOptions): boolean {
  return endStream ?? bodiless.has(headers[':method'] ?? 'GET');
}

/** Destroys the stream of `call` when the signal aborts, with the error that Node's streams have. */
function endWith(signal: AbortSignal, call: Http2Call): void {
  const aborted = (): void => {
    const error = new Error('The operation was aborted', { cause: signal.reason });
    call.stream.destroy(Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' }));
  };
  if (signal.aborted) {
    aborted();
    return;
  }
  onAbort(signal, aborted);
  call.over = () => offAbort(signal, aborted);
}
