import type { LimitFactory } from '../limit/limit.js';
import type { Priority } from '../propagation/priority.js';
import { checkHeaderName, deadlineHeader, priorityHeader } from '../propagation/propagated.js';
import { checkBoolean, checkFunction, checkKeys, checkNumber, optionError } from '../runtime/check.js';
import { type Clock, systemClock } from '../runtime/clock.js';
import type { HttpRequest } from './http-requests.js';

/** The part of a grpc-js call, before its handler begins, that options may use. */
export interface GrpcRequest {
  /** The method's path, such as `/shop.v1.Orders/Get`. */
  readonly path: string;
  readonly metadata: { get(name: string): unknown[] };
  /** The caller's address. */
  getPeer(): string;
}

/** The argument of the application's functions: an HTTP/1 or HTTP/2 request, or a gRPC call (which has `metadata`). */
export type IncomingRequest = HttpRequest | GrpcRequest;

/** Options of `createBackend`. */
export interface BackendOptions {
  /** What this pod tells callers that ask how busy it is; false = nothing. @defaultValue {}, see `ReportOptions` */
  readonly reports?: ReportOptions | false | undefined;
  /**
   * Whether HTTP requests whose caller has another pod are refused while they would queue here and not there: the caller, a client of
   * evenkeel that said so, sends them to another pod, at most twice. Needs `reports`. @defaultValue false
   */
  readonly refuseWhileBusy?: boolean | undefined;
  /**
   * How many requests are served at once: `fixed(n)` or `adaptive()`. Others wait before they begin, and get 503
   * (RESOURCE_EXHAUSTED) if they wait too long. A request counts until its response is complete. @defaultValue none: all at once
   */
  readonly limit?: LimitFactory | undefined;
  /** How many requests may wait for the limit. @defaultValue 1000 */
  readonly maxWaiting?: number | undefined;
  /** How long a request may wait for the limit, in ms; usually the limit's `shedAfterMs` comes first. @defaultValue 10000 */
  readonly waitTimeoutMs?: number | undefined;
  /** When a refused caller may try again, in ms; HTTP says it in whole seconds. @defaultValue 1000 */
  readonly retryAfterMs?: number | undefined;
  /** Requests that neither wait for the limit nor count: health checks, event streams. @defaultValue none */
  readonly unlimited?: ((request: IncomingRequest) => boolean) | undefined;
  /** How long any request may take, in ms. Callers can only shorten it. @defaultValue as long as the caller says */
  readonly deadlineMs?: number | undefined;
  /**
   * The header that says how long the caller will wait, in ms; false = ignored. gRPC has `grpc-timeout`.
   * @defaultValue 'x-envoy-expected-rq-timeout-ms'
   */
  readonly deadlineHeader?: string | false | undefined;
  /** The priority of a request. @defaultValue the caller's, if `trust` allows it, else 'default' */
  readonly priority?: ((request: IncomingRequest) => Priority | undefined) | undefined;
  /** The header, or gRPC metadata, that carries the priority; false = ignored. @defaultValue 'x-request-priority' */
  readonly priorityHeader?: string | false | undefined;
  /** Whether to trust a caller's priority. Called only if the caller sends one. @defaultValue trust none */
  readonly trust?: ((request: IncomingRequest) => boolean) | undefined;
  /**
   * Whether code can find out which request it is serving (`backend.context`), so that its outgoing calls inherit deadline and priority.
   * Costs an AsyncLocalStorage per request. @defaultValue false
   */
  readonly context?: boolean | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** The contents of a report, besides the number of requests in flight. */
export interface ReportOptions {
  /**
   * How full the application is, from 0 to 1 and above. Called once per sample; errors are ignored.
   * @defaultValue the larger of event loop and CPU utilization
   */
  readonly utilization?: (() => number) | undefined;
  /**
   * The application's own metrics, as numbers from 0 up: at most 32, with names of letters, digits and `_.:/-`. Called once per
   * sample; errors and invalid entries are ignored. @defaultValue none
   */
  readonly metrics?: (() => Readonly<Record<string, number>>) | undefined;
  /** How often to sample, in ms. @defaultValue 1000 */
  readonly sampleMs?: number | undefined;
}

/** The defaults of the numeric options. */
export const backendDefaults: {
  readonly sampleMs: number;
  readonly maxWaiting: number;
  readonly waitTimeoutMs: number;
  readonly retryAfterMs: number;
} = Object.freeze({ sampleMs: 1_000, maxWaiting: 1_000, waitTimeoutMs: 10_000, retryAfterMs: 1_000 });

/** The options of a backend after defaults were filled in and everything was checked. */
export interface ResolvedPodOptions {
  readonly reports: ResolvedReportOptions | undefined;
  readonly refuseWhileBusy: boolean;
  readonly limit: LimitFactory | undefined;
  readonly maxWaiting: number;
  readonly waitTimeoutMs: number;
  readonly retryAfterMs: number;
  readonly unlimited: ((request: IncomingRequest) => boolean) | undefined;
  readonly deadlineMs: number | undefined;
  /** In lower case. */
  readonly deadlineHeader: string | undefined;
  readonly priority: ((request: IncomingRequest) => Priority | undefined) | undefined;
  readonly priorityHeader: string | undefined;
  readonly trust: ((request: IncomingRequest) => boolean) | undefined;
  readonly context: boolean;
  readonly clock: Clock;
}

export interface ResolvedReportOptions {
  readonly utilization: (() => number) | undefined;
  readonly metrics: (() => Readonly<Record<string, number>>) | undefined;
  readonly sampleMs: number;
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolvePodOptions(options: BackendOptions): ResolvedPodOptions {
  checkKeys('options', options, optionNames);
  const { reports = {}, limit, deadlineMs, unlimited, priority, trust, clock = systemClock } = options;
  for (const [name, asked] of Object.entries({ limit, unlimited, priority, trust })) {
    if (asked !== undefined) checkFunction(name, asked);
  }
  const refuseWhileBusy = checkBoolean('refuseWhileBusy', options.refuseWhileBusy, false);
  if (refuseWhileBusy && reports === false) throw optionError('refuseWhileBusy', 'false without reports', true);
  const longestMs = { min: 1, max: 86_400_000 };
  checkFunction('clock.now', clock?.now);
  checkFunction('clock.timer', clock.timer);
  return {
    reports: reports === false ? undefined : resolveReportOptions(reports),
    refuseWhileBusy,
    limit,
    maxWaiting: checkNumber('maxWaiting', options.maxWaiting, backendDefaults.maxWaiting, {
      min: 0,
      max: 1_000_000,
      integer: true,
    }),
    waitTimeoutMs: checkNumber('waitTimeoutMs', options.waitTimeoutMs, backendDefaults.waitTimeoutMs, longestMs),
    retryAfterMs: checkNumber('retryAfterMs', options.retryAfterMs, backendDefaults.retryAfterMs, longestMs),
    unlimited,
    deadlineMs: deadlineMs === undefined ? undefined : checkNumber('deadlineMs', deadlineMs, 0, longestMs),
    deadlineHeader: checkHeaderName('deadlineHeader', options.deadlineHeader, deadlineHeader),
    priority,
    priorityHeader: checkHeaderName('priorityHeader', options.priorityHeader, priorityHeader),
    trust,
    context: checkBoolean('context', options.context, false),
    clock,
  };
}

const optionNames: readonly (keyof BackendOptions)[] = [
  'reports',
  'refuseWhileBusy',
  'limit',
  'maxWaiting',
  'waitTimeoutMs',
  'retryAfterMs',
  'unlimited',
  'deadlineMs',
  'deadlineHeader',
  'priority',
  'priorityHeader',
  'trust',
  'context',
  'clock',
];

function resolveReportOptions(reports: ReportOptions): ResolvedReportOptions {
  if (typeof reports !== 'object' || reports === null) throw optionError('reports', 'an object, or false', reports);
  checkKeys('reports', reports, ['utilization', 'metrics', 'sampleMs']);
  const { utilization, metrics } = reports;
  if (utilization !== undefined) checkFunction('reports.utilization', utilization);
  if (metrics !== undefined) checkFunction('reports.metrics', metrics);
  const bounds = { min: 10, max: 3_600_000 };
  return {
    utilization,
    metrics,
    sampleMs: checkNumber('reports.sampleMs', reports.sampleMs, backendDefaults.sampleMs, bounds),
  };
}
