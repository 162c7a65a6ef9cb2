/** How a call ended, in terms every stage, load and retry policy understands. Adapters map their protocol to it. */
export interface Outcome {
  /**
   * - `success`: the endpoint did its work (an application error is a success of the endpoint).
   * - `failure`: the endpoint or the connection to it failed; `cause` says how.
   * - `cancelled`: the caller gave up, which says nothing about the endpoint.
   * - `not-started`: nothing was sent, or the endpoint says it has not begun it; always safe to retry on another endpoint.
   */
  readonly kind: 'success' | 'failure' | 'cancelled' | 'not-started';
  /** How it failed. `status`: the response says so (5xx); `overload`: the endpoint pushes back (503 with Retry-After, 429). */
  readonly cause?: OutcomeCause;
  /** The endpoint asked not to be called again for this long, in ms. */
  readonly retryAfterMs?: number;
  /** The load report that came with the response. */
  readonly report?: LoadReport;
}

/**
 * How a call failed: no connection, no answer in time, a connection that broke, a response that says so, an endpoint that pushes back, or one
 * that broke the protocol's rules.
 */
export type OutcomeCause = 'connect' | 'timeout' | 'reset' | 'status' | 'overload' | 'protocol';

/** A server's report about its load, as in ORCA: utilizations from 0 up, 1 = fully used. */
export interface LoadReport {
  /** How busy the application says it is, in its own measure. Used before that of the CPU where both are reported. */
  readonly applicationUtilization?: number | undefined;
  /** CPU use relative to the pod's limit. */
  readonly cpuUtilization?: number | undefined;
  /** Memory use relative to the pod's limit, from 0 to 1. */
  readonly memUtilization?: number | undefined;
  /** Requests per second, as reported. */
  readonly rpsFractional?: number | undefined;
  /** Errors per second, as reported. */
  readonly eps?: number | undefined;
  /** Numbers of the application's own, by name: `reported({ metric })` uses one of them. */
  readonly namedMetrics?: Readonly<Record<string, number>> | undefined;
}

const failure = (cause: OutcomeCause): Outcome => Object.freeze({ kind: 'failure', cause });

/** The common outcomes as constants, so that reporting one allocates nothing. */
export const outcomes: {
  /** The endpoint did its work. */
  readonly success: Outcome;
  /** The caller gave up. */
  readonly cancelled: Outcome;
  /** Nothing was sent, for a reason on our side. */
  readonly notStarted: Outcome;
  /** Nothing was sent because no connection could be opened. */
  readonly notConnected: Outcome;
  /** The endpoint did not answer in time. */
  readonly timeout: Outcome;
  /** The connection broke while the call ran. */
  readonly reset: Outcome;
  /** The response says that the endpoint failed, such as 500 over HTTP. */
  readonly status: Outcome;
  /** The endpoint pushes back, such as 429 over HTTP. */
  readonly overload: Outcome;
  /** The endpoint answered with something its protocol does not allow. */
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
 * `value` as an outcome that stages and loads can use, undefined if it is not one. An invalid `retryAfterMs` is dropped. On the
 * path of every call.
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
