import cluster from 'node:cluster';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { CallContext } from '../propagation/call-context.js';
import { checkFunction } from '../runtime/check.js';
import { SharedTimers } from '../runtime/shared-timers.js';
import { Admission } from './admission.js';
import { type FastifyPlugin, fastifyPlugin } from './fastify.js';
import { GrpcCalls, grpcCallOf } from './grpc-calls.js';
import { HttpAdmission } from './http-admission.js';
import { type HttpRequest, HttpRequests, type HttpResponse } from './http-requests.js';
import { type BackendOptions, resolveBackendOptions } from './options.js';
import { readText } from './report/cpu-limit.js';
import { LoadReporter } from './report/load-reporter.js';
import type { ReportedLoad } from './report/orca-message.js';
import { Samples } from './report/samples.js';
import { RequestCount } from './request-count.js';
import { RequestHeaders } from './request-headers.js';
import { RequestRules } from './request-rules.js';
import { noContext, ServedContext } from './served-call.js';

/** A request listener, as `http.createServer` or `http2.createSecureServer` takes it. */
type Listener<Request, Response> = (request: Request, response: Response) => unknown;

/** The part of a Koa context that evenkeel uses. */
interface KoaContext {
  respond?: boolean;
  readonly req: IncomingMessage | Http2ServerRequest;
  readonly res: ServerResponse | Http2ServerResponse;
}

/**
 * What a server does for load balancing. Create one per process and attach it to every server of the process. Its middleware must come
 * first, so that it sees requests when they arrive.
 */
export interface Backend extends AsyncDisposable {
  /** Wraps the listener of `http.createServer`, `https.createServer` or `http2.createSecureServer`. */
  http(listener: Listener<IncomingMessage, ServerResponse>): Listener<IncomingMessage, ServerResponse>;
  http(listener: Listener<Http2ServerRequest, Http2ServerResponse>): Listener<Http2ServerRequest, Http2ServerResponse>;
  /** Middleware for Express, Nest, and other frameworks whose middleware takes request, response and next. */
  readonly express: (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;
  /** A plugin for Fastify: `await app.register(backend.fastify)`. */
  readonly fastify: FastifyPlugin;
  /** Middleware for Koa. */
  readonly koa: (context: KoaContext, next: () => Promise<unknown>) => Promise<unknown>;
  /**
   * An interceptor for grpc-js servers: `new Server({ interceptors: [backend.grpc] })`. `never` stands for a class of grpc-js, which is not
   * imported here.
   */
  readonly grpc: (method: unknown, call: unknown) => never;
  /**
   * Returns a signal that aborts when the caller leaves before the response is complete, and at the deadline. Pass it to whatever the
   * handler awaits.
   *
   * @param request The request that Node passed to the listener (the same in Express and Nest; `request.raw` in Fastify, `context.req` in
   * Koa), or the call that a grpc-js handler gets.
   */
  signal(request: object): AbortSignal;
  /**
   * Finds the request that the running code is serving; needs `context: true`. Pass it to clients so that their calls inherit deadline and
   * priority: `createDispatcher(target, { propagate: { context: backend.context } })`.
   */
  readonly context: CallContext;
  /** How many requests this process is serving now. */
  readonly inFlight: number;
  /** The load report that callers would get now. */
  readonly load: ReportedLoad;
  /** The limit at this moment, how many requests run and wait, and how many were refused because of it; undefined without a limit. */
  readonly limit:
    | { readonly max: number; readonly running: number; readonly waiting: number; readonly shed: number }
    | undefined;
  /** Stops sampling the load; requests are still counted. */
  close(): Promise<void>;
}

/**
 * Counts the requests of this process, and tells callers that ask for it how busy the process is. evenkeel's clients ask automatically,
 * with the request header `endpoint-load-metrics-format`. Requests whose deadline has passed or whose caller has left are not begun, and
 * with a `limit` neither are those that wait too long.
 *
 * @throws EVENKEEL_OPTION for invalid options.
 * @example const backend = createBackend(); http.createServer(backend.http(app)).listen(8080);
 */
export function createBackend(options: BackendOptions = {}): Backend {
  return new ServingBackend(options);
}

class ServingBackend implements Backend {
  readonly express: Backend['express'];
  readonly fastify: FastifyPlugin;
  readonly koa: Backend['koa'];
  readonly grpc: Backend['grpc'];
  readonly context: CallContext;
  readonly #count = new RequestCount();
  readonly #http: HttpAdmission;
  readonly #admission: Admission | undefined;
  readonly #timers: SharedTimers;
  readonly #reporter: LoadReporter | undefined;
  readonly #samples: Samples | undefined;

  constructor(options: BackendOptions) {
    const resolved = resolveBackendOptions(options);
    const { reports, limit, clock } = resolved;
    // Callers see the workers of a cluster as one pod, and a worker knows only its own requests, so it reports nothing.
    if (reports !== undefined && !cluster.isWorker) {
      this.#samples = new Samples({ ...reports, clock, count: this.#count, read: readText });
      this.#reporter = new LoadReporter(this.#count, this.#samples);
    }
    const context = resolved.context ? new ServedContext() : undefined;
    this.context = context ?? noContext;
    this.#timers = new SharedTimers(clock);
    this.#admission = limit === undefined ? undefined : new Admission({ ...resolved, limit });
    const parts = {
      clock,
      timers: this.#timers,
      rules: new RequestRules(resolved),
      reporter: this.#reporter,
      admission: this.#admission,
      context,
    };
    const http = new HttpAdmission({
      ...parts,
      requests: new HttpRequests(this.#count),
      headers: new RequestHeaders({ deadline: resolved.deadlineHeader, priority: resolved.priorityHeader }),
    });
    this.#http = http;
    const grpc = new GrpcCalls({ ...parts, count: this.#count, priorityHeader: resolved.priorityHeader });
    // These members are functions of their own, because frameworks call them without the object they belong to.
    this.express = (request, response, next) => void http.begin(request, response, () => next());
    this.koa = (koa, next) => {
      const leave = (): void => {
        koa.respond = false;
      };
      return http.begin(koa.req, koa.res, next, leave) as Promise<unknown>;
    };
    this.fastify = fastifyPlugin({
      begin: (request, response, serve, leave) => void http.begin(request, response, serve, leave),
      resume: context && ((response, serve) => http.resume(response, serve)),
    });
    this.grpc = (method, call) => {
      grpc.begin(method as never, call as never);
      return call as never;
    };
  }

  http<Request extends HttpRequest, Response extends HttpResponse>(
    listener: Listener<Request, Response>,
  ): Listener<Request, Response> {
    checkFunction('listener', listener);
    const http = this.#http;
    return function (this: unknown, request, response) {
      return http.begin(request, response, () => listener.call(this, request, response));
    };
  }

  signal(request: object): AbortSignal {
    if (isGrpcCall(request)) return grpcCallOf(request).signal;
    return this.#http.callOf(request as HttpRequest).signal;
  }

  get inFlight(): number {
    return this.#count.inFlight;
  }

  get load(): ReportedLoad {
    return this.#reporter?.load ?? { named_metrics: {} };
  }

  get limit(): Backend['limit'] {
    const admission = this.#admission;
    if (admission === undefined) return undefined;
    const { max, running, waiting, shed } = admission;
    return { max, running, waiting, shed };
  }

  async close(): Promise<void> {
    this.#samples?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function isGrpcCall(request: object): request is { readonly metadata: object } {
  const { metadata } = request as { readonly metadata?: unknown };
  return typeof metadata === 'object' && metadata !== null && !('rawHeaders' in request);
}
