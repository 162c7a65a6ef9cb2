import type { Endpoint } from '../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { TraceScope } from '../observe/trace-scope.js';
import {
  type AttemptReason,
  attemptChannels,
  type CallFacts,
  callChannels,
  type TracedAttempt,
  type TracedCall,
} from '../observe/traces.js';
import type { Clock } from '../runtime/clock.js';
import type { Lease } from './lease.js';

/** Where traced calls get their endpoints from: a balancer, or something that chooses among several balancers. */
export interface TracedSource {
  /** The name of the resolver, which traces give as the call's target. */
  readonly name: string;
  /** The balancer's clock, by which the waiting time of a call is measured. */
  readonly clock: Clock;
}

/** How an attempt is traced. */
export interface AttemptTraceParts {
  readonly attempt: number;
  readonly reason: AttemptReason;
  /** Adds a header to the attempt. @defaultValue the protocol cannot add headers */
  readonly setHeader?: TracedAttempt['setHeader'];
}

const unknownFacts: CallFacts = Object.freeze({ protocol: 'custom' });

/** Creates the trace of a call. To be called only while calls are traced (`isTraced`). */
export function traceOf(source: TracedSource, call: { facts?(): CallFacts }): CallTrace {
  return new CallTrace(source, call.facts?.() ?? unknownFacts);
}

/**
 * One call, over all its attempts, as the tracing channels publish it; this object is the message that subscribers get. Exists only for
 * calls that started while there were subscribers.
 */
export class CallTrace implements TracedCall {
  readonly target: string;
  /** The protocol: `http`, `grpc`, `custom` and others, see `CallFacts.protocol`. */
  readonly protocol: string;
  /** The method or operation, such as `GET` or `/shop.Orders/Get`; undefined if the call has none. */
  readonly method: string | undefined;
  /** The Service as its caller names it: an origin, or `host:port`. Undefined if unknown. */
  readonly service: string | undefined;
  attempts = 0;
  waitedMs = 0;
  outcome: Outcome | undefined;
  error: unknown;
  status: number | string | undefined;
  readonly #clock: Clock;
  readonly #scope: TraceScope = new TraceScope(callChannels, this);
  #waitsSinceMs: number | undefined;
  /** How long the call has waited for an endpoint since its last attempt, in ms. */
  #restedMs = 0;
  #last: AttemptTrace | undefined;

  constructor({ name, clock }: TracedSource, { protocol, method, service }: CallFacts) {
    this.target = name;
    this.protocol = protocol;
    this.method = method;
    this.service = service;
    this.#clock = clock;
  }

  around(wrap: (run: () => void) => void): void {
    this.#scope.around(wrap);
  }

  /** Runs `work` as the start of the call, in the async context that subscribers set for the call. Returns the result of `work`. */
  start<T>(work: () => T): T {
    return this.#scope.start(work);
  }

  /** Runs `work` in the async context in which the call started. */
  run<T>(work: () => T): T {
    return this.#scope.run(work);
  }

  /** The call begins to wait for an endpoint. Has no effect if the call is waiting already. */
  waits(): void {
    this.#waitsSinceMs ??= this.#clock.now();
  }

  /** The call no longer waits for an endpoint; the time since `waits` counts as waited. Has no effect if the call was not waiting. */
  waited(): void {
    if (this.#waitsSinceMs === undefined) return;
    this.#restedMs += this.#clock.now() - this.#waitsSinceMs;
    this.#waitsSinceMs = undefined;
  }

  /** Creates the trace of the next attempt. The attempt begins when `start` of that trace is called. */
  attempt<C>(lease: Lease<C>, parts: AttemptTraceParts): AttemptTrace {
    this.waited();
    const waitedMs = this.#restedMs;
    this.#restedMs = 0;
    this.waitedMs += waitedMs;
    this.attempts = Math.max(this.attempts, parts.attempt);
    return new AttemptTrace(this, lease, parts, waitedMs);
  }

  /** Remembers the last attempt that ended, whose outcome is that of the call by default. */
  ended(attempt: AttemptTrace): void {
    this.#last = attempt;
  }

  /**
   * Ends the trace of the call. Further calls of this method do nothing.
   *
   * @param outcome The outcome of the call. @defaultValue that of the last attempt, or not started if there was none
   * @param status The status of the response. @defaultValue that of the last attempt
   */
  end(outcome: Outcome | undefined, error: unknown, status?: string): void {
    if (this.#scope.isOver) return;
    this.waited();
    this.waitedMs += this.#restedMs;
    this.outcome = outcome ?? this.#last?.outcome ?? outcomes.notStarted;
    this.error = error;
    this.status = status ?? this.#last?.status;
    this.#scope.end(error);
  }
}

/** One attempt of a traced call; this object is the message that subscribers of the tracing channel get. */
export class AttemptTrace implements TracedAttempt {
  readonly call: CallTrace;
  readonly endpoint: Endpoint;
  readonly attempt: number;
  readonly reason: AttemptReason;
  readonly waitedMs: number;
  outcome: Outcome | undefined;
  error: unknown;
  status: number | string | undefined;
  readonly setHeader: TracedAttempt['setHeader'];
  readonly #scope: TraceScope = new TraceScope(attemptChannels, this);

  constructor(call: CallTrace, lease: Lease<unknown>, parts: AttemptTraceParts, waitedMs: number) {
    this.call = call;
    this.endpoint = lease.endpoint;
    this.attempt = parts.attempt;
    this.reason = parts.reason;
    this.setHeader = parts.setHeader;
    this.waitedMs = waitedMs;
  }

  around(wrap: (run: () => void) => void): void {
    this.#scope.around(wrap);
  }

  /** Runs `send`, which sends the attempt, in the attempt's async context. */
  start(send: () => void): void {
    this.call.run(() => this.#scope.start(send));
  }

  /** Runs `work` in the async context in which the attempt started. */
  run<T>(work: () => T): T {
    return this.#scope.run(work);
  }

  /** Ends the trace of the attempt. Further calls of this method do nothing. */
  end(outcome: Outcome, error: unknown): void {
    if (this.#scope.isOver) return;
    this.outcome = outcome;
    this.error = error;
    this.call.ended(this);
    this.#scope.end(error);
  }
}

/** The traces of one `Attempts`: those of a whole call, or of one of its concurrent attempts. */
export class AttemptTraces {
  /** Whether nothing was sent of the last attempt, so that the next attempt is a move and no retry. */
  isMoving = false;
  readonly #trace: CallTrace;
  /** Whether these attempts are all of the call's, so that the call ends with them; false for one of several concurrent attempts. */
  readonly #isWhole: boolean;
  readonly #isHedge: boolean;
  #attempt: AttemptTrace | undefined;
  /** The error that the caller got when it gave up. */
  #givenUp: unknown;

  constructor(trace: CallTrace, isWhole: boolean, isHedge: boolean) {
    this.#trace = trace;
    this.#isWhole = isWhole;
    this.#isHedge = isHedge;
  }

  waits(): void {
    this.#trace.waits();
  }

  /** Starts the trace of an attempt and runs `send`, which sends it, in the attempt's async context. */
  send<C>(lease: Lease<C>, attempt: number, setHeader: TracedAttempt['setHeader'], send: () => void): void {
    const reason = this.#reason(attempt);
    this.isMoving = false;
    this.#attempt = this.#trace.attempt(lease, { attempt, reason, setHeader });
    this.#attempt.start(send);
  }

  /** Runs `work` as a part of the running attempt, in that attempt's async context. */
  resume<T>(work: () => T): T {
    return this.#attempt === undefined ? work() : this.#attempt.run(work);
  }

  answeredWith(status: number): void {
    if (this.#attempt !== undefined) this.#attempt.status = status;
  }

  /** The running attempt has ended. @param isLast Whether the call has ended with this attempt. */
  ended(outcome: Outcome, error: unknown, isLast: boolean): void {
    this.#attempt?.end(outcome, error);
    if (isLast) this.#end(outcome, error);
  }

  /** The caller gives up the call. @param isRunning Whether an attempt or a wait has yet to end. */
  stopped(error: unknown, isRunning: boolean): void {
    this.#givenUp ??= error;
    if (!isRunning) this.#end(outcomes.cancelled, error);
  }

  /** The call failed because it got no endpoint, or because its caller gave up. */
  refused(error: unknown, isCancelled: boolean): void {
    this.#end(isCancelled ? outcomes.cancelled : outcomes.notStarted, error);
  }

  #end(outcome: Outcome, error: unknown): void {
    if (this.#isWhole) this.#trace.end(outcome, this.#givenUp ?? error);
  }

  #reason(attempt: number): AttemptReason {
    if (attempt === 1) return 'first';
    if (this.isMoving) return 'move';
    return this.#isHedge && this.#attempt === undefined ? 'hedge' : 'retry';
  }
}
