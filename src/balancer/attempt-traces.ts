import { type Outcome, outcomes } from '../endpoint/outcome.js';
import type { AttemptReason, TracedAttempt } from '../observe/traces.js';
import type { AttemptTrace, CallTrace } from './call-trace.js';
import type { Lease } from './lease.js';

/** The traces of one `Attempts`: of a whole call, or of one of its concurrent attempts. */
export class AttemptTraces {
  /** Whether the next attempt follows one of which nothing was sent. */
  isMoving = false;
  readonly #trace: CallTrace;
  /** Whether the call ends with these attempts. */
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

  /** An attempt starts: `send` sends it, in its context. */
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

  /** The running attempt has ended. @param isLast So has the call. */
  ended(outcome: Outcome, error: unknown, isLast: boolean): void {
    this.#attempt?.end(outcome, error);
    if (isLast) this.#end(outcome, error);
  }

  /** The caller gives up. @param isRunning An attempt or a wait is still to end. */
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
