import { experimental, type Metadata, status as statusCode } from '@grpc/grpc-js';
import { type Balancer, type Outcome, outcomes, type PickTarget } from '../../index.js';
import {
  type AttemptReason,
  type AttemptTrace,
  type CallLease,
  type CallTrace,
  loadReportHeader,
  reportAttempt,
  reportsHeader,
} from '../kit/index.js';
import type { Http2Connection } from './http2-connection.js';
import { outcomeOf } from './outcome.js';
import type { PodConnection } from './pod-connection.js';
import { announcesReports, type EndStatus, loadReportOf, reportTrailer, withoutOwnTrailers } from './server-reports.js';
import type { Method } from './service-config.js';
import { endTrace } from './traced-call.js';
import type { WaitingCall } from './waiting-call.js';

/** The constant `COMPLETE`, read once because `PickResultType` is a getter in grpc-js. */
const { COMPLETE } = experimental.PickResultType;
const { OK } = statusCode;

/** What all attempts on one channel share. */
export interface AttemptOwner {
  /** A call that waits can start, or need not wait any longer: grpc-js is to try the waiting calls again. */
  settled(): void;
}

/** How an attempt ended, as its caller sees it. */
export interface CallStatus {
  readonly code: statusCode;
  readonly details: string;
  readonly metadata: Metadata;
}

/**
 * One gRPC call through all its attempts (retries, hedges, repeated picks). grpc-js uses this object in two ways: as the pick information
 * of every attempt, and as a filter that sees the response begin and the call end.
 */
export class BalancedCall implements experimental.Filter, experimental.FilterFactory<experimental.Filter> {
  readonly method: Method;
  /** The call's latest attempt, which refers to the one before it; nearly all calls have only one attempt. */
  last: GrpcAttempt | undefined;
  messages = 0;
  /**
   * How many attempts of the call are paid for: the first, and those that the retry budget paid for; 0 until the call is first to be
   * placed.
   */
  paid = 0;
  /** How the call's last attempt failed. */
  lastStatus: CallStatus | undefined;
  /** Whether an attempt of the call waits until the retry budget covers it, or until no other attempt of the call runs. */
  isOverBudget = false;
  /** Whether no further attempt of the call follows, so that the call ends as its last attempt did. */
  isGivenUp = false;
  /** Whether the caller was notified of the call's end. */
  isOver = false;
  /** The call's place in the balancer's waiting room while it waits for an endpoint; otherwise undefined. */
  waiting: WaitingCall | undefined;
  /** The trace of the call; undefined unless calls are traced. */
  trace: CallTrace | undefined;

  constructor(method: Method) {
    this.method = method;
  }

  /** The call requests an endpoint from a balancer for the first time. */
  begins({ retries }: Balancer<PodConnection>): void {
    this.paid = 1;
    retries.budget.deposit();
  }

  /** The subchannels that earlier attempts of this call used. */
  get tried(): ReadonlySet<PickTarget> | undefined {
    if (this.last === undefined) return undefined;
    const tried = new Set<PickTarget>();
    for (let attempt: GrpcAttempt | undefined = this.last; attempt !== undefined; attempt = attempt.previous) {
      tried.add(attempt.lease.subchannel);
    }
    return tried;
  }

  /** Whether an attempt of the call is running. */
  get isRunning(): boolean {
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) {
      if (!attempt.isOver) return true;
    }
    return false;
  }

  /** Whether the call's method allows another attempt. */
  get mayRepeat(): boolean {
    return !this.method.repeatsRefusedOnly || this.last?.isRefused === true;
  }

  /** Whether the call's last attempt was refused because its connection takes no more calls, which says nothing about the server's load. */
  get isRefusedForFree(): boolean {
    return this.last?.isRefused === true && !this.last.isConnected;
  }

  /** grpc-js picks again for this call. */
  followedByPick(): void {
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) attempt.followedByPick();
  }

  createFilter(): experimental.Filter {
    return this;
  }

  sendMetadata(metadata: Promise<Metadata>): Promise<Metadata> {
    return metadata;
  }

  receiveMetadata(metadata: Metadata): Metadata {
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) attempt.answered();
    return metadata;
  }

  sendMessage<T>(message: T): T {
    return message;
  }

  receiveMessage<T>(message: T): T {
    if (++this.messages === 2) this.method.streaming = true;
    return message;
  }

  /** Called when the call has ended: reports its status to traces, and returns the status that the caller gets. */
  receiveTrailers<T extends EndStatus>(status: T): T {
    this.isOver = true;
    if (status.code === OK) {
      if (this.messages === 1) this.method.single = true;
      else this.method.streaming = true;
    }
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) attempt.callEnded();
    if (this.waiting !== undefined) this.waiting.leave();
    // grpc-js lets a picker end calls with some status codes only, so the last attempt's status is put in place here.
    const reported = withoutOwnTrailers(this.isGivenUp ? { ...status, ...this.lastStatus } : status);
    if (this.trace !== undefined) endTrace(this.trace, reported);
    return reported;
  }
}

/** One attempt of a call, as the pick result that grpc-js needs. Its lease begins with the pick and ends with the attempt. */
export class GrpcAttempt implements experimental.PickResult {
  readonly pickResultType: experimental.PickResultType.COMPLETE = COMPLETE;
  readonly subchannel: experimental.SubchannelInterface;
  readonly status: null = null;
  readonly onCallEnded: experimental.PickResult['onCallEnded'];
  readonly lease: CallLease<PodConnection>;
  /** The attempt of this call before this one. */
  readonly previous: GrpcAttempt | undefined;
  readonly #call: BalancedCall;
  readonly #connection: Http2Connection;
  readonly #owner: AttemptOwner;
  isOver = false;
  #begun = false;
  /** Whether the call made another attempt after this one, which grpc-js may start before it reports the end of this one. */
  #followed = false;
  #reported = false;
  #error: object | undefined;
  #trace: AttemptTrace | undefined;

  constructor(call: BalancedCall, lease: CallLease<PodConnection>, connection: Http2Connection, owner: AttemptOwner) {
    this.#call = call;
    this.lease = lease;
    this.#connection = connection;
    this.#owner = owner;
    this.subchannel = connection.subchannel;
    this.onCallEnded = (code, details, metadata) => this.#finished(code, details, metadata);
    this.previous = call.last;
    call.last = this;
    if (this.#isHedge && this.previous?.lease.outcome?.kind !== 'not-started') lease.retries.followed('hedge');
    lease.handle.callStarted(connection);
  }

  /** Reports the start of this attempt to those who trace `call`. `metadata` are the attempt's own. */
  trace(call: CallTrace, metadata: Metadata): void {
    const setHeader = (name: string, value: string): void => metadata.set(name, value);
    this.#trace = call.attempt(this.lease, { attempt: this.#number, reason: this.#reason, setHeader });
    this.#trace.start(() => {});
  }

  /** grpc-js sends this attempt now. Between the pick and this moment it waited for call credentials. */
  onCallStarted(): void {
    this.#begun = true;
  }

  /** Whether the attempt ended before a server saw it. */
  get isRefused(): boolean {
    const { outcome } = this.lease;
    return outcome?.kind === 'not-started' && outcome.cause === undefined;
  }

  /** Whether the attempt's connection still takes calls. */
  get isConnected(): boolean {
    return this.#connection.ready;
  }

  /** The response has begun. */
  answered(): void {
    this.lease.progressed();
  }

  /** Another pick for this call follows. It replaces this attempt if this attempt never started because its connection was lost. */
  followedByPick(): void {
    if (!this.#begun && !this.#connection.ready) this.#end(outcomes.notStarted);
    this.#followed = true;
    this.#report();
  }

  /** The call has ended: an unused pick is returned, and a failed attempt was not followed by another. */
  callEnded(): void {
    this.#end(outcomes.notStarted);
    this.#report();
  }

  #finished(code: statusCode, details: string, metadata: Metadata): void {
    const call = this.#call;
    const { lease } = this;
    const { method } = call;
    if (code === OK && this.#isHedge) lease.retries.hedgeWon();
    let outcome: Outcome = outcomes.success;
    let latencyMs: number | undefined;
    const trailers = metadata.getMap();
    const report = reportTrailer in trailers || loadReportHeader in trailers ? loadReportOf(trailers) : undefined;
    if (report !== undefined) lease.handle.reportAsking.reported();
    if (reportsHeader in trailers && announcesReports(trailers, lease.endpoint)) lease.handle.reportAsking.announced();
    if (code !== OK || report !== undefined) {
      // A stream that was quiet until its caller or its deadline ended it says nothing about its pod.
      const quiet = lease.answered || method.streaming;
      outcome = outcomeOf({ code, details, metadata, quiet, endpoint: lease.endpoint }, report);
      if (outcome.kind === 'cancelled') {
        if (quiet && !lease.answered) latencyMs = 0;
        if (quiet || !method.single) lease.progressed();
      }
      // A plain object instead of an Error: an Error's stack would be grpc-js's, and an outage causes thousands of errors a second.
      else if (outcome.kind === 'failure') this.#error = { code: statusCode[code], details };
    }
    if (this.#trace !== undefined) this.#trace.status = statusCode[code];
    this.#end(outcome, latencyMs);
    if (this.#followed) this.#report();
    if (code === OK) return;
    call.lastStatus = { code, details, metadata };
    if (call.isOverBudget) this.#owner.settled();
  }

  #end(outcome: Outcome, latencyMs?: number): void {
    if (this.isOver) return;
    this.isOver = true;
    const { lease } = this;
    lease.handle.callEnded(this.#connection);
    lease.end(outcome, latencyMs);
    if (this.#trace !== undefined) this.#trace.end(outcome, this.#error);
  }

  /** The number of this attempt within its call, from 1. */
  get #number(): number {
    let number = 1;
    for (let attempt = this.previous; attempt !== undefined; attempt = attempt.previous) number++;
    return number;
  }

  get #isHedge(): boolean {
    return this.previous !== undefined && this.#call.method.isHedged;
  }

  get #reason(): AttemptReason {
    if (this.previous === undefined) return 'first';
    if (!this.previous.#begun) return 'move';
    return this.#isHedge ? 'hedge' : 'retry';
  }

  /**
   * Reports the end of the attempt to the observer, once it is known whether another attempt follows: when that starts, or when the call
   * ends.
   */
  #report(): void {
    const { lease } = this;
    if (!this.isOver || this.#reported) return;
    this.#reported = true;
    if (this.#followed) {
      const { outcome, retries } = lease;
      if (outcome?.kind === 'not-started') retries.followed('not-started');
      else if (outcome?.kind === 'failure' && !this.#call.method.isHedged) retries.followed(outcome.cause ?? 'status');
    }
    if (lease.observer.attemptEnded === undefined) return;
    reportAttempt(lease, { attempt: this.#number, retrying: this.#followed, error: this.#error });
  }
}
