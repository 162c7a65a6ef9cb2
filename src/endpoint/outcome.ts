/** How a call ended, in terms that every stage, load and retry policy understands. Adapters convert their protocol's results to it. */
export interface Outcome {
  /**
   * How the call ended for its endpoint.
   * - `success`: the endpoint did its work. An error of the application, such as "not found", is a success of the endpoint.
   * - `failure`: the endpoint or the connection to it failed; `cause` says how.
   * - `cancelled`: the caller gave up, which says nothing about the endpoint.
   * - `not-started`: nothing was sent, or the endpoint says that it has not begun the call; always safe to retry on another endpoint.
   */
  readonly kind: 'success' | 'failure' | 'cancelled' | 'not-started';
  /**
   * How the call failed. `status`: the response says so (5xx); `overload`: the endpoint asks for fewer calls (503 with Retry-After, 429).
   */
  readonly cause?: OutcomeCause;
  /** For how long the endpoint asked not to be called again, in ms. */
  readonly retryAfterMs?: number;
  /** The load report that came with the response. */
  readonly report?: LoadReport;
}

/**
 * How a call failed: no connection (`connect`), no response in time (`timeout`), a connection that broke (`reset`), a response that says so
 * (`status`), an endpoint that asks for fewer calls (`overload`), or one that broke the protocol's rules (`protocol`).
 */
export type OutcomeCause = 'connect' | 'timeout' | 'reset' | 'status' | 'overload' | 'protocol';

/** A server's report about its load, as in ORCA. Utilizations start at 0; 1 = fully used. */
export interface LoadReport {
  /** How busy the application is, by its own measure. If it is reported, `cpuUtilization` does not count. */
  readonly applicationUtilization?: number | undefined;
  /** CPU use relative to the pod's limit, from 0 up. */
  readonly cpuUtilization?: number | undefined;
  /** Memory use relative to the pod's limit, from 0 to 1. */
  readonly memUtilization?: number | undefined;
  /** How many requests per second the server reports. */
  readonly rpsFractional?: number | undefined;
  /** How many errors per second the server reports. */
  readonly eps?: number | undefined;
  /** The application's own numbers, by name. `reported({ metric })` uses one of them. */
  readonly namedMetrics?: Readonly<Record<string, number>> | undefined;
}

const failure = (cause: OutcomeCause): Outcome => Object.freeze({ kind: 'failure', cause });

/** The common outcomes as constants, so that reporting one allocates nothing. */
export const outcomes: {
  /** The endpoint did its work. */
  readonly success: Outcome;
  /** The caller gave up. */
  readonly cancelled: Outcome;
  /** Nothing was sent, for a reason on the client's side. */
  readonly notStarted: Outcome;
  /** Nothing was sent because no connection could be opened. */
  readonly notConnected: Outcome;
  /** The endpoint did not respond in time. */
  readonly timeout: Outcome;
  /** The connection broke while the call ran. */
  readonly reset: Outcome;
  /** The response says that the endpoint failed, such as 500 over HTTP. */
  readonly status: Outcome;
  /** The endpoint asks for fewer calls, as with 429 over HTTP. */
  readonly overload: Outcome;
  /** The endpoint sent something that its protocol does not allow. */
  readonly protocol: Outcome;
} = Object.freeze({
  success: Object.freeze({ kind: 'success' }),
  cancelled: Object.freeze({ kind: 'cancelled' }),
  notStarted: Object.freeze({ kind: 'not-started' }),
  notConnected: Object.freeze({ kind: 'not-started', cause: 'connect' }),
  timeout: failure('timeout'),
  reset: failure('reset'),
  status: failure('status'),
  overload: failure('overload'),
  protocol: failure('protocol'),
});

/**
 * Returns `value` as an outcome that stages and loads can use; undefined if it is no outcome. An invalid `retryAfterMs` is removed. Runs
 * for every call.
 */
export function usableOutcome(value: unknown): Outcome | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const outcome = value as Outcome;
  const { kind, retryAfterMs } = outcome;
  if (kind !== 'success' && kind !== 'failure' && kind !== 'cancelled' && kind !== 'not-started') return undefined;
  if (retryAfterMs === undefined || (typeof retryAfterMs === 'number' && retryAfterMs >= 0)) return outcome;
  const { retryAfterMs: _none, ...rest } = outcome;
  return rest;
}
