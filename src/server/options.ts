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

/** The part of a grpc-js call that functions in the options may read before the call's handler begins. */
export interface GrpcRequest {
  /** The method's path, such as `/shop.v1.Orders/Get`. */
  readonly path: string;
  /** The caller's metadata. `get` returns all values of an entry, or an empty array if there are none. */
  readonly metadata: { get(name: string): unknown[] };
  /** Returns the caller's address. */
  getPeer(): string;
}

/** What functions in the options get: an HTTP/1 or HTTP/2 request, or a gRPC call, which can be told by its `metadata`. */
export type IncomingRequest = HttpRequest | GrpcRequest;

/** Options of `createBackend`: load reports, a limit on requests, deadlines and priorities. An invalid option throws EVENKEEL_OPTION. */
export interface BackendOptions {
  /**
   * What load reports contain for callers that ask for them; false = there are no reports, as in every worker of `node:cluster`.
   * @defaultValue {}, see `ReportOptions`
   */
  readonly reports?: ReportOptions | false | undefined;
  /**
   * How many requests are served at once: `fixed(n)` or `adaptive()`. Further requests wait before they begin, and get 503
   * (RESOURCE_EXHAUSTED) if they wait too long. A request counts until its handler has ended the response. @defaultValue none: all are served
   * at once
   */
  readonly limit?: LimitFactory | undefined;
  /** How many requests may wait for the limit. @defaultValue 1000 */
  readonly maxWaiting?: number | undefined;
  /** How long a request may wait for the limit, in ms; usually the limit's `shedAfterMs` comes first. @defaultValue 10000 */
  readonly waitTimeoutMs?: number | undefined;
  /** When a refused caller may try again, in ms; HTTP rounds it up to whole seconds. @defaultValue 1000 */
  readonly retryAfterMs?: number | undefined;
  /**
   * Returns whether a request neither waits for the limit nor counts against it, such as health checks and event streams. @defaultValue
   * none
   */
  readonly unlimited?: ((request: IncomingRequest) => boolean) | undefined;
  /** How long any request may take, in ms. Callers can only shorten this time. @defaultValue none: as long as the caller allows */
  readonly deadlineMs?: number | undefined;
  /**
   * The header that says how long the caller will wait, in ms; false = it is not read. For gRPC calls, `grpc-timeout` is read.
   * @defaultValue 'x-envoy-expected-rq-timeout-ms'
   */
  readonly deadlineHeader?: string | false | undefined;
  /**
   * Returns the priority of a request. @defaultValue the caller's if `trust` allows it, else 'default' @see
   * docs/guide/overload.md#priorities
   */
  readonly priority?: ((request: IncomingRequest) => Priority | undefined) | undefined;
  /** The header, or gRPC metadata key, that carries a request's priority; false = it is not read. @defaultValue 'x-request-priority' */
  readonly priorityHeader?: string | false | undefined;
  /**
   * Returns whether the priority that a request's caller set is accepted. Called only for requests that carry one. @defaultValue none is
   * accepted
   */
  readonly trust?: ((request: IncomingRequest) => boolean) | undefined;
  /**
   * Whether running code can find the request that it serves (`backend.context`), so that its outgoing calls inherit deadline and priority.
   * Costs an AsyncLocalStorage run per request. @defaultValue false @see docs/guide/overload.md#passing-on-deadlines-and-priorities
   */
  readonly context?: boolean | undefined;
  /** The clock by which all time is measured; tests pass their own. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
}

/** What load reports contain besides the number of requests in flight. An invalid option throws EVENKEEL_OPTION. */
export interface ReportOptions {
  /**
   * Returns how full the application is, from 0 to 1 and above. Called once per sample; errors are ignored. @defaultValue the larger of
   * event loop and CPU utilization
   */
  readonly utilization?: (() => number) | undefined;
  /**
   * Returns the application's own metrics, as numbers from 0 up: at most 32, with names of letters, digits and `_.:/-`. Called once per
   * sample; errors and invalid entries are ignored. @defaultValue none
   */
  readonly metrics?: (() => Readonly<Record<string, number>>) | undefined;
  /** How often the load is sampled, in ms. @defaultValue 1000 */
  readonly sampleMs?: number | undefined;
}

/** The options of load reports, with defaults filled in and everything checked. */
export type ResolvedReportOptions = Filled<ReportOptions, 'utilization' | 'metrics'>;

export const reportTable: OptionTable<ResolvedReportOptions> = optionTable('reports', {
  utilization: functionOption<NonNullable<ReportOptions['utilization']>>(),
  metrics: functionOption<NonNullable<ReportOptions['metrics']>>(),
  sampleMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
});

/** The options of a backend, with defaults filled in and everything checked. Names of headers are in lower case. */
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

/** Fills in the defaults of a backend's options and checks them. Throws EVENKEEL_OPTION. */
export function resolveBackendOptions(options: BackendOptions): ResolvedBackendOptions {
  return backendTable.resolve(options);
}
