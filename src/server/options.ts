import type { LimitFactory } from '../limit/limit.js';
import type { Priority } from '../propagation/priority.js';
import { deadlineHeader, headerOption, priorityHeader } from '../propagation/propagated.js';
import { optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import type { Filled } from '../runtime/complete.js';
import {
  booleanOption,
  checkedOption,
  clockOption,
  functionOption,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionTable,
} from '../runtime/options.js';
import type { HttpRequest } from './http-requests.js';

/** The part of a grpc-js call, before its handler begins, that options may use. */
export interface GrpcRequest {
  /** The method's path, such as `/shop.v1.Orders/Get`. */
  readonly path: string;
  /** The caller's metadata; `get` returns all values of an entry, none as an empty array. */
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
   * Whether HTTP requests whose caller has another pod are refused while they would queue here and not there: the caller, a
   * client of evenkeel that said so, sends them to another pod, at most twice. Needs `reports`. @defaultValue false
   * @see docs/guide/server.md#sending-requests-elsewhere-while-busy
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
  /**
   * The priority of a request.
   * @defaultValue the caller's, if `trust` allows it, else 'default'
   * @see docs/guide/overload.md#priorities
   */
  readonly priority?: ((request: IncomingRequest) => Priority | undefined) | undefined;
  /** The header, or gRPC metadata, that carries the priority; false = ignored. @defaultValue 'x-request-priority' */
  readonly priorityHeader?: string | false | undefined;
  /** Whether to trust a caller's priority. Called only if the caller sends one. @defaultValue trust none */
  readonly trust?: ((request: IncomingRequest) => boolean) | undefined;
  /**
   * Whether code can find out which request it is serving (`backend.context`), so that its outgoing calls inherit deadline and
   * priority. Costs an AsyncLocalStorage per request. @defaultValue false
   * @see docs/guide/deadlines.md
   */
  readonly context?: boolean | undefined;
  /** All time it uses. For tests. @defaultValue the system's clock */
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

/** The options of reports after defaults were filled in and everything was checked. */
export type ResolvedReportOptions = Filled<ReportOptions, 'utilization' | 'metrics'>;

export const reportTable: OptionTable<ResolvedReportOptions> = optionTable('reports', {
  utilization: functionOption<NonNullable<ReportOptions['utilization']>>(),
  metrics: functionOption<NonNullable<ReportOptions['metrics']>>(),
  sampleMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
});

/** The options of a backend after defaults were filled in and everything was checked. Headers are in lower case. */
export type ResolvedBackendOptions = Filled<
  Omit<BackendOptions, 'reports' | 'deadlineHeader' | 'priorityHeader'>,
  'limit' | 'unlimited' | 'deadlineMs' | 'priority' | 'trust'
> & {
  readonly reports: ResolvedReportOptions | undefined;
  readonly deadlineHeader: string | undefined;
  readonly priorityHeader: string | undefined;
};

const durations = { min: 1, max: 86_400_000 };

export const backendTable: OptionTable<ResolvedBackendOptions> = optionTable('options', {
  reports: checkedOption<ResolvedReportOptions | undefined>(reportTable.defaults, (name, reports) => {
    if (reports === false) return undefined;
    if (typeof reports !== 'object' || reports === null) throw optionError(name, 'an object, or false', reports);
    return reportTable.resolve(reports);
  }),
  refuseWhileBusy: booleanOption(false),
  limit: functionOption<LimitFactory>(),
  maxWaiting: numberOption(1_000, { min: 0, max: 1_000_000, integer: true }),
  waitTimeoutMs: numberOption(10_000, durations),
  retryAfterMs: numberOption(1_000, durations),
  unlimited: functionOption<NonNullable<BackendOptions['unlimited']>>(),
  deadlineMs: optionalNumber(durations),
  deadlineHeader: headerOption(deadlineHeader),
  priority: functionOption<NonNullable<BackendOptions['priority']>>(),
  priorityHeader: headerOption(priorityHeader),
  trust: functionOption<NonNullable<BackendOptions['trust']>>(),
  context: booleanOption(false),
  clock: clockOption,
});

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveBackendOptions(options: BackendOptions): ResolvedBackendOptions {
  const resolved = backendTable.resolve(options);
  if (resolved.refuseWhileBusy && resolved.reports === undefined) {
    throw optionError('refuseWhileBusy', 'false without reports', true);
  }
  return resolved;
}
