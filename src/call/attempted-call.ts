import type { Outcome } from '../endpoint/outcome.js';
import { notify, observes } from '../observe/observer.js';
import type { CallFacts, TracedAttempt } from '../observe/traces.js';
import type { Priority } from '../propagation/priority.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import type { TriedEndpoints } from '../retry/tried-endpoints.js';
import type { Stopper } from '../runtime/stopper.js';
import type { AcquireOptions, PickOptions } from './acquire-options.js';
import type { CallTrace, TracedSource } from './call-trace.js';
import type { CallLease, Lease } from './lease.js';

/** Where the attempts of a call get their endpoints from: a balancer, or something that chooses among several balancers. */
export interface AttemptSource<C> extends TracedSource {
  /** Picks an endpoint that can take the call at once; undefined if none can. */
  pick(options?: PickOptions): Lease<C> | undefined;
  /** Waits for an endpoint that can take the call, at most as long as the options say, and until `stopper` or their signal ends the wait. */
  acquire(options: AcquireOptions, stopper: Stopper): Promise<Lease<C>>;
  /** The retry policy whose budget a new call adds to. Undefined: the policy of the first endpoint that the call goes to. */
  readonly retries: RetryPolicy | undefined;
}

/** What a protocol contributes to a call: how an attempt is sent, and what happens when none succeeds. */
export interface AttemptedCall<C> {
  /**
   * Sends an attempt on the endpoint of `lease`. The protocol must then end it with `end`, `fail` or `giveBack` of `Attempts`. An exception
   * ends the whole call.
   */
  send(lease: CallLease<C>): void;
  /** The call has failed: no attempt of it is running, and none follows. May also be called after `stop`. */
  fail(error: unknown): void;
  /** Describes the call for traces. Called only while calls are traced. */
  facts?(): CallFacts;
  /** Adds a header to the attempt that `send` is about to send. Called only while calls are traced. */
  readonly setHeader?: TracedAttempt['setHeader'];
  /**
   * The call begins to wait for an endpoint, because none can take it now. Called before each wait, so that an adapter can count waiting
   * calls or keep the process alive.
   */
  waitBegan?(): void;
  /** The wait that `waitBegan` reported is over: the call got an endpoint, failed, or was stopped. Called once for each `waitBegan`. */
  waitEnded?(): void;
  /** When this signal aborts, the call no longer waits for an endpoint, as after `stop`. */
  readonly signal?: AbortSignal | undefined;
  /** How long the call may wait for an endpoint, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly waitTimeoutMs?: number | undefined;
  /** The whole limit of which `waitTimeoutMs` is the rest, in ms. The error names it. @defaultValue `waitTimeoutMs` */
  readonly waitLimitMs?: number | undefined;
  /** Whether the call is outside the balancer's `limit`. @defaultValue false */
  readonly unlimited?: boolean | undefined;
  /**
   * Whether this call goes before or after others that wait for the `limit`; the lowest priority is shed first. @defaultValue 'default'
   */
  readonly priority?: Priority | undefined;
  /** The time left until the call's deadline, in ms. @defaultValue none: the call has no deadline */
  readonly deadlineMs?: number | undefined;
}

/** What all attempts of one call share, including concurrent attempts (hedges). */
export interface SharedAttempts<C> {
  /** How many attempts of the call were made so far. */
  made: number;
  /** How many attempts moved to another endpoint because nothing was sent. */
  moves: number;
  /** The endpoints on which the call was tried. Undefined before the first failure. */
  tried: TriedEndpoints<C> | undefined;
  /** The trace of the call; undefined unless calls are traced. */
  readonly trace?: CallTrace | undefined;
}

/** Says that an attempt belongs to a hedged call. */
export interface HedgePart<C> {
  /** What the attempt shares with the concurrent attempts of its call. */
  readonly shared: SharedAttempts<C>;
  /** Whether this attempt runs beside an earlier, slow one. */
  readonly isHedge: boolean;
}

/**
 * Whether a call can be sent again, and at what cost.
 * - `never`: it cannot, for example because its body was consumed.
 * - `free`: nothing was sent, because the endpoint left or its connection was gone. The call moves on, whatever it is, without a retry.
 * - `first-free`: the attempt's connection, which other calls shared or waited for, was cut or could not be opened. When an endpoint ends, it
 *   takes many calls along at once, more than a retry budget pays for. The first retry of such a call is free: it puts no load on any endpoint
 *   twice, because it goes where the call would have gone without the endpoint that ended.
 * - `paid`: the retry budget pays.
 */
export type Resend = 'never' | 'free' | 'first-free' | 'paid';

/** How an attempt failed, and whether the call may be sent again. */
export interface FailedAttempt {
  /** How the attempt ended: this counts for the endpoint's load, for stages, and for the observer. */
  readonly outcome: Outcome;
  /** The error that the caller gets if no further attempt succeeds; undefined if the caller gets this attempt's response then. */
  readonly error: unknown;
  /** The outcome that decides about a retry, if it differs from `outcome`. @defaultValue `outcome` */
  readonly repeatAs?: Outcome;
  /** Whether the call may safely be sent twice. */
  readonly idempotent: boolean;
  /** Whether the caller received any part of a response. */
  readonly answered: boolean;
  /** Whether the call can be sent again, and at what cost. @defaultValue 'paid' */
  readonly resend?: Resend;
  /**
   * Whether the endpoint refused the attempt without processing it. Such an endpoint may get the call once more if there is no other.
   * @defaultValue false
   */
  readonly refused?: boolean;
  /** The HTTP method of the call, if it has one. */
  readonly method?: string;
  /** The status of the response that is given up, for retry options that name statuses. @defaultValue none */
  readonly status?: number;
  /** Returns a header of the response that is given up, by its lower-case name. @defaultValue none */
  readonly header?: (name: string) => unknown;
}

/** Details of an attempt's end. */
export interface AttemptEnd {
  /** How the attempt ended. @defaultValue success */
  readonly outcome?: Outcome;
  /** The error with which the attempt failed, for the observer. @defaultValue none */
  readonly error?: unknown;
  /** How long the endpoint took to respond, in ms; null = not measured. @defaultValue the duration of the attempt */
  readonly latencyMs?: number | null | undefined;
  /** Whether another attempt of the call follows or runs beside this one. */
  readonly retrying?: boolean;
}

/** What the observer is told about an ended attempt. */
export interface AttemptReport {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** How the attempt ended, if its lease continues for longer. @defaultValue how the lease ended */
  readonly outcome?: Outcome;
  /** Whether another attempt of the call follows or is running. @defaultValue false */
  readonly retrying?: boolean;
  /** Whether the attempt ran beside an earlier attempt of the same call. @defaultValue false */
  readonly hedged?: boolean;
  /** The error with which the attempt failed. @defaultValue none */
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
