import { type Channel, channel } from 'node:diagnostics_channel';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Outcome } from '../endpoint/outcome.js';

/** Why an attempt was made: `retry` follows a failure, `move` an attempt of which nothing was sent; `hedge` runs beside a slow attempt. */
export type AttemptReason = 'first' | 'retry' | 'move' | 'hedge';

/** Describes a traced call: its protocol, method and Service. */
export interface CallFacts {
  /** The protocol of the call: `http`, `grpc`, `mysql`, `postgresql`, `redis`, `tcp`, or `custom` for `balancer.run`. */
  readonly protocol: string;
  /** The method or operation of the call: `GET`, `/shop.Orders/Get`, `query`. @defaultValue none */
  readonly method?: string | undefined;
  /** The Service as its caller names it: an origin, or `host:port`. @defaultValue unknown */
  readonly service?: string | undefined;
}

/** The message of the tracing channel `evenkeel:call`: one object per call, filled in as the call proceeds. */
export interface TracedCall extends CallFacts {
  /** The name of the resolver, which is the target unless a resolver has another name. */
  readonly target: string;
  /** Attempts of the call made so far. */
  readonly attempts: number;
  /** How long the call has waited for an endpoint, in ms, over all its attempts. */
  readonly waitedMs: number;
  /** How the call ended; undefined while it runs. */
  readonly outcome: Outcome | undefined;
  /** The error that the caller got in place of a result. */
  readonly error: unknown;
  /** The status of the response that the caller got: an HTTP status, or the name of a gRPC status. Undefined if there is none. */
  readonly status: number | string | undefined;
  /**
   * Runs the rest of the call inside `wrap`, which must call its argument at once. For subscribers of `start` whose context is not an
   * AsyncLocalStorage.
   */
  around(wrap: (run: () => void) => void): void;
}

/** The message of the tracing channel `evenkeel:attempt`: one object per attempt. */
export interface TracedAttempt {
  /** The call that this attempt belongs to; the same object for all attempts of a call. */
  readonly call: TracedCall;
  /** The endpoint the attempt goes to: address and port, the pod's name and zone where they are known. */
  readonly endpoint: Endpoint;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Why the attempt was made: as the first, after a failure, after an attempt of which nothing was sent, or beside a slow one. */
  readonly reason: AttemptReason;
  /** How long the call waited for this endpoint, in ms; 0 if it did not wait. */
  readonly waitedMs: number;
  /** How the attempt ended; undefined while it runs. */
  readonly outcome: Outcome | undefined;
  /** The error with which the attempt failed; undefined while it runs and after a success. */
  readonly error: unknown;
  /** The status of the response to this attempt: an HTTP status, or the name of a gRPC status. Undefined without a response. */
  readonly status: number | string | undefined;
  /**
   * Adds a header, or gRPC metadata, to this attempt. Works only within a subscriber of `start`. Undefined if the protocol cannot add
   * headers.
   */
  readonly setHeader: ((name: string, value: string) => void) | undefined;
  /** Wraps the rest of the attempt, as `TracedCall.around` does for a call. */
  around(wrap: (run: () => void) => void): void;
}

/** The five channels behind a `TracingChannel` of `node:diagnostics_channel`. */
export interface TraceChannels {
  readonly start: Channel;
  readonly end: Channel;
  readonly asyncStart: Channel;
  readonly asyncEnd: Channel;
  readonly error: Channel;
}

/** The channels of Node's `tracingChannel(name)`. */
const channelsOf = (name: string): TraceChannels => ({
  start: channel(`tracing:${name}:start`),
  end: channel(`tracing:${name}:end`),
  asyncStart: channel(`tracing:${name}:asyncStart`),
  asyncEnd: channel(`tracing:${name}:asyncEnd`),
  error: channel(`tracing:${name}:error`),
});

/** The tracing channels of calls. A call lasts from its start until its caller has the result. */
export const callChannels: TraceChannels = channelsOf('evenkeel:call');
/** The tracing channels of attempts. An attempt lasts from when it has an endpoint until it ends. */
export const attemptChannels: TraceChannels = channelsOf('evenkeel:attempt');
