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

/** Where traced calls come from: a balancer, or what chooses among several. */
export interface TracedSource {
  /** The resolver's name. */
  readonly name: string;
  /** The clock by which waiting is timed: the balancer's. */
  readonly clock: Clock;
}

/** How an attempt is traced. */
export interface AttemptTraceParts {
  readonly attempt: number;
  readonly reason: AttemptReason;
  /** Adds headers to the attempt. @defaultValue not possible */
  readonly setHeader?: TracedAttempt['setHeader'];
}

const unknownFacts: CallFacts = Object.freeze({ protocol: 'custom' });

/** The trace of a call that starts while calls are traced (`isTraced`). */
export function traceOf(source: TracedSource, call: { facts?(): CallFacts }): CallTrace {
  return new CallTrace(source, call.facts?.() ?? unknownFacts);
}

/**
 * A call on the tracing channels, over all its attempts. It is also the subscribers' message. Exists only for calls that started while
 * there were subscribers.
 */
export class CallTrace implements TracedCall {
  readonly target: string;
  /** `http`, `grpc`, `custom` and others: see `CallFacts.protocol`. */
  readonly protocol: string;
  /** The method or operation, such as `GET` or `/shop.Orders/Get`; undefined where a call has none. */
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

  /** Runs `work` as the start of the call, in the context the subscribers set for it. Returns what it returns. */
  start<T>(work: () => T): T {
    return this.#scope.start(work);
  }

  /** Runs `work` in the async context in which the call started. */
  run<T>(work: () => T): T {
    return this.#scope.run(work);
  }

  /** The call starts to wait for an endpoint. Repeated calls of this method have no effect. */
  waits(): void {
    this.#waitsSinceMs ??= this.#clock.now();
  }

  /** The call stops waiting for an endpoint: the time since `waits` counts as waited. Does nothing if it was not waiting. */
  waited(): void {
    if (this.#waitsSinceMs === undefined) return;
    this.#restedMs += this.#clock.now() - this.#waitsSinceMs;
    this.#waitsSinceMs = undefined;
  }

  /** Returns the trace of the next attempt, which begins with that trace's `start`. */
  attempt<C>(lease: Lease<C>, parts: AttemptTraceParts): AttemptTrace {
    this.waited();
    const waitedMs = this.#restedMs;
    this.#restedMs = 0;
    this.waitedMs += waitedMs;
    this.attempts = Math.max(this.attempts, parts.attempt);
    return new AttemptTrace(this, lease, parts, waitedMs);
  }

  /** An attempt has ended. */
  ended(attempt: AttemptTrace): void {
    this.#last = attempt;
  }

  /**
   * The call is over. Calls after the first do nothing.
   * @param outcome By default that of the last attempt, or not started if there was none; `status` likewise.
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

/** One attempt of a traced call, which is also the message that subscribers of the tracing channel get. */
export class AttemptTrace implements TracedAttempt {
  readonly call: CallTrace;
  readonly endpoint: Endpoint;
  readonly place: number | undefined;
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
    this.place = lease.place;
    this.attempt = parts.attempt;
    this.reason = parts.reason;
    this.setHeader = parts.setHeader;
    this.waitedMs = waitedMs;
  }

  around(wrap: (run: () => void) => void): void {
    this.#scope.around(wrap);
  }

  /** Runs `send`, which sends the attempt, unless a subscriber has ended the trace by then. */
  start(send: () => void): void {
    this.call.run(() => this.#scope.start(send));
  }

  /** Runs `work` in the async context in which the attempt started. */
  run<T>(work: () => T): T {
    return this.#scope.run(work);
  }

  /** The attempt has ended. Calls of this method after the first do nothing. */
  end(outcome: Outcome, error: unknown): void {
    if (this.#scope.isOver) return;
    this.outcome = outcome;
    this.error = error;
    this.call.ended(this);
    this.#scope.end(error);
  }
}

/** The traces of one `Attempts`: of a whole call, or of one of its concurrent attempts. */
export class AttemptTraces {
  /** Whether the last attempt sent nothing, so that the next one is a move. */
  isMoving = false;
  readonly #trace: CallTrace;
  /** Whether the call ends with these attempts: they are all of the call's, not one of several concurrent ones. */
  readonly #isWhole: boolean;
  readonly #isHedge: boolean;
  #attempt: AttemptTrace | undefined;
  /** The error the caller got when it gave up. */
  #givenUp: unknown;

  constructor(trace: CallTrace, isWhole: boolean, isHedge: boolean) {
    this.#trace = trace;
    this.#isWhole = isWhole;
    this.#isHedge = isHedge;
  }

  waits(): void {
    this.#trace.waits();
  }

  /** An attempt starts: `send` sends it, in the attempt's async context. */
  send<C>(lease: Lease<C>, attempt: number, setHeader: TracedAttempt['setHeader'], send: () => void): void {
    const reason = this.#reason(attempt);
    this.isMoving = false;
    this.#attempt = this.#trace.attempt(lease, { attempt, reason, setHeader });
    this.#attempt.start(send);
  }

  /** The running attempt continues, possibly in another async context. */
  resume<T>(work: () => T): T {
    return this.#attempt === undefined ? work() : this.#attempt.run(work);
  }

  answeredWith(status: number): void {
    if (this.#attempt !== undefined) this.#attempt.status = status;
  }

  /** The running attempt has ended. @param isLast Whether the call has ended with it. */
  ended(outcome: Outcome, error: unknown, isLast: boolean): void {
    this.#attempt?.end(outcome, error);
    if (isLast) this.#end(outcome, error);
  }

  /** The caller gives up the call. @param isRunning Whether an attempt or a wait is still to end. */
  stopped(error: unknown, isRunning: boolean): void {
    this.#givenUp ??= error;
    if (!isRunning) this.#end(outcomes.cancelled, error);
  }

  /** The call got no endpoint. */
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
