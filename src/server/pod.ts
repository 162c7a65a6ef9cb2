import cluster from 'node:cluster';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { checkFunction } from '../runtime/check.js';
import { readText } from './cpu-limit.js';
import { type FastifyPlugin, fastifyPlugin } from './fastify.js';
import { countGrpcCall } from './grpc-calls.js';
import { reportOn } from './http-report.js';
import { type HttpRequest, HttpRequests, type HttpResponse } from './http-requests.js';
import { type InFlightSource, LoadReporter } from './load-reporter.js';
import { type PodOptions, resolvePodOptions } from './options.js';
import type { ReportedLoad } from './reported-load.js';
import { RequestCount } from './request-count.js';
import { Samples } from './samples.js';
import { PrimaryCounts, WorkerCount } from './worker-counts.js';

/** A listener of `http.createServer` or `http2.createSecureServer`. */
type Listener<Request, Response> = (request: Request, response: Response) => unknown;

/** What a context of Koa has. */
interface KoaContext {
  readonly req: IncomingMessage | Http2ServerRequest;
  readonly res: ServerResponse | Http2ServerResponse;
}

/**
 * The server's side of the balancing: what this process is to its callers. Made once per process, and given to each server in it. Its
 * middleware comes first, so that it sees a request when it arrives.
 */
export interface Pod extends AsyncDisposable {
  /** Wraps the listener of `http.createServer`, `https.createServer` or `http2.createSecureServer`. */
  http(listener: Listener<IncomingMessage, ServerResponse>): Listener<IncomingMessage, ServerResponse>;
  http(listener: Listener<Http2ServerRequest, Http2ServerResponse>): Listener<Http2ServerRequest, Http2ServerResponse>;
  /** Middleware for Express, Nest, and all that call theirs with request, response and next. */
  readonly express: (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void) => void;
  /** A plugin for Fastify: `await app.register(pod.fastify)`. */
  readonly fastify: FastifyPlugin;
  /** Middleware for Koa. */
  readonly koa: (context: KoaContext, next: () => Promise<unknown>) => Promise<unknown>;
  /**
   * An interceptor for servers of grpc-js: `new Server({ interceptors: [pod.grpc] })`. `never` stands for a class of grpc-js, which
   * is not imported here.
   */
  readonly grpc: (method: unknown, call: unknown) => never;
  /** Requests in flight in this process. */
  readonly inFlight: number;
  /** What a report would say now. */
  readonly load: ReportedLoad;
  /** Ends the sampling; requests are counted as before. */
  close(): Promise<void>;
}

/**
 * Counts the requests of this process, and tells callers that ask how busy it is. evenkeel's clients ask by themselves, with the
 * request header `endpoint-load-metrics-format`.
 *
 * @throws EVENKEEL_OPTION for invalid options.
 * @example const pod = createPod(); http.createServer(pod.http(app)).listen(8080);
 */
export function createPod(options: PodOptions = {}): Pod {
  return new ServingPod(options);
}

class ServingPod implements Pod {
  readonly express: Pod['express'];
  readonly fastify: FastifyPlugin;
  readonly koa: Pod['koa'];
  readonly grpc: Pod['grpc'];
  readonly #count = new RequestCount();
  readonly #requests = new HttpRequests(this.#count);
  readonly #reporter: LoadReporter | undefined;
  readonly #samples: Samples | undefined;
  /** What adds up the workers of a cluster. */
  readonly #workers: { close(): void } | undefined;

  constructor(options: PodOptions) {
    const { reports, clock } = resolvePodOptions(options);
    if (reports !== undefined) {
      let source: InFlightSource = this.#count;
      if (cluster.isWorker) {
        const workers = new WorkerCount(this.#count, clock, process);
        this.#workers = workers;
        source = workers;
      } else this.#workers = new PrimaryCounts(cluster, clock);
      this.#samples = new Samples({ ...reports, clock, count: this.#count, read: readText });
      this.#reporter = new LoadReporter(source, this.#samples);
    }
    // Functions, since they are handed on without their object.
    this.express = (request, response, next) => {
      this.#began(request, response);
      next();
    };
    this.koa = ({ req, res }, next) => {
      this.#began(req, res);
      return next();
    };
    this.fastify = fastifyPlugin((request, response) => this.#began(request, response));
    this.grpc = (_method, call) => {
      countGrpcCall(call as never, this.#count, this.#reporter);
      return call as never;
    };
  }

  http<Request extends HttpRequest, Response extends HttpResponse>(
    listener: Listener<Request, Response>,
  ): Listener<Request, Response> {
    checkFunction('listener', listener);
    const began = (request: HttpRequest, response: HttpResponse): void => this.#began(request, response);
    return function (this: unknown, request, response) {
      began(request, response);
      return listener.call(this, request, response);
    };
  }

  get inFlight(): number {
    return this.#count.inFlight;
  }

  get load(): ReportedLoad {
    return this.#reporter?.load ?? { named_metrics: {} };
  }

  async close(): Promise<void> {
    this.#samples?.close();
    this.#workers?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #began(request: HttpRequest, response: HttpResponse): void {
    if (!this.#requests.began(request, response)) return;
    if (this.#reporter !== undefined) reportOn(request, response, this.#reporter);
  }
}
