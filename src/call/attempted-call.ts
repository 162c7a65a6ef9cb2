import type { Outcome } from '../endpoint/outcome.js';
import { notify, observes } from '../observe/observer.js';
import type { CallFacts, TracedAttempt } from '../observe/traces.js';
import type { Priority } from '../propagation/priority.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import type { TriedEndpoints } from '../retry/tried-endpoints.js';
import type { AcquireOptions, PickOptions } from './acquire-options.js';
import type { CallTrace, TracedSource } from './call-trace.js';
import type { CallLease, Lease } from './lease.js';

/** Where the attempts of a call may go: a balancer, or whatever chooses among several. */
export interface AttemptSource<C> extends TracedSource {
  /** An endpoint that can take the call at once; undefined if none can. */
  pick(options?: PickOptions): Lease<C> | undefined;
  /** Waits for an endpoint that can take the call, at most as long as the options say. */
  acquire(options: AcquireOptions): Promise<Lease<C>>;
  /** The retry budget that a new call adds to. Undefined: the budget of the first endpoint that the call goes to. */
  readonly retries: RetryPolicy | undefined;
}

/** The protocol's part of a call: how an attempt is sent, and what happens when none succeeds. */
export interface AttemptedCall<C> {
  /** Sends an attempt, which must then end by `end`, `fail` or `giveBack` of the call's `Attempts`. An exception ends the call. */
  send(lease: CallLease<C>): void;
  /** The call fails: no attempt of it is running, and none follows. Also called after `stop`. */
  fail(error: unknown): void;
  /** Describes the call for traces. Called only while calls are traced. */
  facts?(): CallFacts;
  /** Adds a header to the attempt that `send` is about to make. Called only while calls are traced. */
  readonly setHeader?: TracedAttempt['setHeader'];
  /** The call started, or stopped, waiting for an endpoint. */
  waitBegan?(): void;
  /** Called once for each `waitBegan`, also when the waiting failed. */
  waitEnded?(): void;
  /** Aborts to end the wait for an endpoint, as `stop` does. */
  readonly signal?: AbortSignal | undefined;
  /** How long the call may wait for an endpoint, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly waitTimeoutMs?: number | undefined;
  /** Whether the call is outside the balancer's `limit`. @defaultValue false */
  readonly unlimited?: boolean | undefined;
  /** Which calls go first where they wait for the `limit`, and which are shed first. @defaultValue 'default' */
  readonly priority?: Priority | undefined;
  /** The time left until the call's deadline, in ms. @defaultValue it has no deadline */
  readonly deadlineMs?: number | undefined;
}

/** What the attempts of one call have in common, those that run side by side (hedges) included. */
export interface AttemptTally<C> {
  /** Attempts of the call made so far. */
  made: number;
  /** Attempts that moved to another endpoint because nothing was sent. */
  moves: number;
  /** Endpoints the call was tried on. Undefined before the first failure. */
  tried: TriedEndpoints<C> | undefined;
  /** The trace of the call; undefined unless calls are traced. */
  readonly trace?: CallTrace | undefined;
}

/** Makes attempts part of a hedged call. */
export interface HedgePart<C> {
  /** What the attempt shares with the other attempts of the call. */
  readonly tally: AttemptTally<C>;
  /** Whether this attempt runs beside an earlier, slow one. */
  readonly isHedge: boolean;
}

/** How an attempt failed, and whether another is safe. */
export interface FailedAttempt {
  /** How the attempt ended: for the endpoint's load and stages, and for the observer. */
  readonly outcome: Outcome;
  /** What the caller gets if no further attempt succeeds; undefined for a response that the caller gets then. */
  readonly error: unknown;
  /** The outcome that decides about a retry, if it is a different one. @defaultValue `outcome` */
  readonly repeatAs?: Outcome;
  /** Whether the call may safely be sent twice. */
  readonly idempotent: boolean;
  /** Whether the caller received any part of a response. */
  readonly answered: boolean;
  /** Whether the call can still be sent: its body is not used up, for example. @defaultValue true */
  readonly repeatable?: boolean;
  /** Nothing was sent: the endpoint left, or its connection was gone. The call moves on at no cost. @defaultValue false */
  readonly untried?: boolean;
  /**
   * The attempt's connection, which any number of other calls shared or waited for, was cut or could not be opened. A burst of calls that
   * an endpoint's end takes along is more than a budget pays for, and puts no load on it twice, so the first retry of a call is free: it
   * goes where the call would have gone without this endpoint. @defaultValue false
   */
  readonly cut?: boolean;
  /**
   * The endpoint refused the attempt without processing it, and may get the call once more if there is no other endpoint. @defaultValue
   * false
   */
  readonly refused?: boolean;
  /** The HTTP method of the call, if it has one. */
  readonly method?: string;
  /** The status of the response that is given up, if options may name it. @defaultValue none */
  readonly status?: number;
  /** The headers of the response that is given up, by lower-case name. @defaultValue none */
  readonly header?: (name: string) => unknown;
}

/** Details of an attempt's end. */
export interface AttemptEnd {
  /** How the attempt ended. @defaultValue success */
  readonly outcome?: Outcome;
  /** What the attempt failed with, for the observer. @defaultValue none */
  readonly error?: unknown;
  /** How long the endpoint took to respond, in ms. @defaultValue the duration of the attempt */
  readonly latencyMs?: number | null | undefined;
  /** Whether another attempt follows or runs beside it. */
  readonly retrying?: boolean;
}

/** How an attempt ended, for the observer. */
export interface AttemptReport {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** How the attempt ended, if its lease continues for a while. @defaultValue how the lease ended */
  readonly outcome?: Outcome;
  /** Whether another attempt of the call follows or is running. @defaultValue false */
  readonly retrying?: boolean;
  /** Whether the attempt ran beside an earlier one of the same call. @defaultValue false */
  readonly hedged?: boolean;
  /** What the attempt failed with. @defaultValue none */
  readonly error?: unknown;
}

/** Reports an attempt to the observer: the only source of the event `attemptEnded`. */
export function reportAttempt<C>(lease: CallLease<C>, report: AttemptReport): void {
  const { observer, endpoint } = lease;
  if (!observes(observer, 'attemptEnded')) return;
  const { attempt, outcome = lease.outcome as Outcome, retrying = false, hedged = false, error } = report;
  notify(observer, 'attemptEnded', {
    endpoint,
    outcome,
    attempt,
    retrying,
    ...(hedged && { hedged }),
    ...(error !== undefined && { error }),
  });
}
