import { experimental, type Metadata, status as statusCode } from '@grpc/grpc-js';
import { type Balancer, type Clock, type Lease, type Outcome, outcomes, type Subchannel } from '../../index.js';
import {
  type AttemptReason,
  type AttemptTrace,
  type CallNote,
  type CallTrace,
  observes,
  reportAttempt,
} from '../kit/index.js';
import type { AttemptOwner } from './call-owner.js';
import type { Leaf } from './leaf.js';
import type { LimitPlace } from './limit-place.js';
import { loadReportOf } from './load-report.js';
import type { MethodHistory } from './method-history.js';
import { outcomeOf } from './outcome.js';
import type { PodConnection } from './pod-connection.js';
import { endTrace } from './traced-call.js';

type Outside = Balancer<PodConnection>['outside'];

/** Read once, because it is a getter in grpc-js. */
const { COMPLETE } = experimental.PickResultType;

/**
 * One call through all its attempts (retries, hedges, repeated picks). grpc-js uses it as two things: the pick information of every
 * attempt, and a filter that sees the response begin and the call end.
 */
export class BalancedCall implements experimental.Filter, experimental.FilterFactory<experimental.Filter> {
  readonly history: MethodHistory;
  readonly clock: Clock;
  /** The latest attempt, which refers to the one before it: nearly all calls have only one. */
  last: Attempt | undefined;
  /** When the response began, on the balancer's clock. */
  answeredMs: number | undefined;
  messages = 0;
  /** Attempts that were paid for, the first included. */
  paid = 0;
  /** Since when it has waited for an endpoint, on the balancer's clock. */
  waitingSinceMs: number | undefined;
  /** How its last attempt failed. */
  lastStatus: CallStatus | undefined;
  /** An attempt waits until the retry budget covers it, or no other runs. */
  isOverBudget = false;
  /** No attempt follows: the call ends as its last attempt did. */
  isGivenUp = false;
  /** While it waits for the limit on running calls, and until it is placed. */
  place: LimitPlace | undefined;
  /** Undefined unless somebody traces calls. */
  trace: CallTrace | undefined;
  /** Whether its attempts may run side by side. */
  isHedged = false;
  /** Of the balancer that was first asked for an endpoint. */
  outside: Outside | undefined;
  /** While it waits in grpc-js for an endpoint. */
  #waits: Outside | undefined;
  #waitsSinceMs = 0;
  /** When it was first to be placed, if that is measured. */
  #begunMs: number | undefined;

  constructor(history: MethodHistory, clock: Clock) {
    this.history = history;
    this.clock = clock;
  }

  /** A balancer is asked for an endpoint. */
  picking({ retries, outside }: Balancer<PodConnection>): void {
    if (this.outside !== undefined) return;
    this.outside = outside;
    if (outside.protocolMeter !== undefined) this.#begunMs = this.clock.now();
    retries.budget.deposit();
  }

  /** grpc-js keeps it until there may be an endpoint for it. */
  waits({ outside }: Balancer<PodConnection>): void {
    if (this.#waits === outside) return;
    this.waited(undefined);
    this.#waits = outside;
    this.#waitsSinceMs = outside.began();
  }

  /** It no longer waits there. @param served As for `OutsideCalls.ended`. */
  waited(served: boolean | undefined): void {
    const waits = this.#waits;
    if (waits === undefined) return;
    this.#waits = undefined;
    waits.ended(this.#waitsSinceMs, served);
  }

  /** Subchannels this call was tried on before. */
  get tried(): ReadonlySet<Subchannel<PodConnection>> | undefined {
    if (this.last === undefined) return undefined;
    const tried = new Set<Subchannel<PodConnection>>();
    for (let attempt: Attempt | undefined = this.last; attempt !== undefined; attempt = attempt.previous) {
      tried.add(attempt.lease.subchannel);
    }
    return tried;
  }

  /** Whether an attempt is running. */
  get isRunning(): boolean {
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) {
      if (!attempt.isOver) return true;
    }
    return false;
  }

  /** Another pick for this call follows. */
  another(): void {
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) attempt.another();
  }

  createFilter(): experimental.Filter {
    return this;
  }

  sendMetadata(metadata: Promise<Metadata>): Promise<Metadata> {
    return metadata;
  }

  receiveMetadata(metadata: Metadata): Metadata {
    this.#answered();
    return metadata;
  }

  sendMessage<T>(message: T): T {
    return message;
  }

  receiveMessage<T>(message: T): T {
    if (++this.messages === 2) this.history.streaming = true;
    return message;
  }

  /** The call is over. */
  receiveTrailers<T extends { readonly code: statusCode; readonly details?: string }>(status: T): T {
    if (status.code === statusCode.OK) {
      if (this.messages === 1) this.history.single = true;
      else this.history.streaming = true;
    }
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) attempt.callEnded();
    // One that succeeded was waiting for a further attempt.
    this.waited(status.code === statusCode.OK ? undefined : false);
    this.place?.leave();
    // grpc-js allows a picker only some codes.
    const told = this.isGivenUp ? { ...status, ...this.lastStatus } : status;
    if (this.#begunMs !== undefined) {
      this.outside?.protocolMeter?.callEnded(this.history.path, told.code, this.clock.now() - this.#begunMs);
    }
    if (this.trace !== undefined) endTrace(this.trace, told);
    return told;
  }

  #answered(): void {
    if (this.answeredMs !== undefined) return;
    this.answeredMs = this.clock.now();
    for (let attempt = this.last; attempt !== undefined; attempt = attempt.previous) attempt.answered();
  }
}

/** How an attempt ended, as its caller is told. */
export interface CallStatus {
  readonly code: statusCode;
  readonly details: string;
  readonly metadata: Metadata;
}

/** One pick, in the form grpc-js needs. Its lease begins with the pick and ends with the attempt. */
export class Attempt implements experimental.PickResult {
  readonly pickResultType: experimental.PickResultType.COMPLETE = COMPLETE;
  readonly subchannel: experimental.SubchannelInterface;
  readonly status: null = null;
  readonly onCallEnded: experimental.PickResult['onCallEnded'];
  readonly lease: Lease<PodConnection>;
  /** The attempt before it. */
  readonly previous: Attempt | undefined;
  /** From 1. */
  readonly #number: number;
  readonly #call: BalancedCall;
  readonly #leaf: Leaf;
  readonly #owner: AttemptOwner;
  isOver = false;
  #begun = false;
  /** Another attempt was made; grpc-js may start it before it reports the end of this one. */
  #followed = false;
  #error: object | undefined;
  #note: CallNote | undefined;
  #reported = false;
  #trace: AttemptTrace | undefined;

  constructor(call: BalancedCall, lease: Lease<PodConnection>, leaf: Leaf, owner: AttemptOwner) {
    this.#call = call;
    this.lease = lease;
    this.#leaf = leaf;
    this.#owner = owner;
    this.subchannel = leaf.subchannel;
    this.onCallEnded = (code, details, metadata) => this.#finished(code, details, metadata);
    this.previous = call.last;
    this.#number = call.last === undefined ? 1 : call.last.#number + 1;
    call.last = this;
    const isHedge = call.isHedged && this.previous !== undefined && this.previous.lease.outcome?.kind !== 'not-started';
    if (isHedge) lease.retries.followed('hedge');
    lease.handle.callStarted(leaf);
  }

  /** Says to those who trace `call` that it begins. `metadata` are its own. */
  trace(call: CallTrace, metadata: Metadata): void {
    const setHeader = (name: string, value: string): void => metadata.set(name, value);
    this.#trace = call.attempt(this.lease, { attempt: this.#number, reason: this.#reason, setHeader });
    this.#trace.start(() => {});
  }

  /** grpc-js sent the call. Between pick and this it waits for call credentials. */
  onCallStarted(): void {
    this.#begun = true;
    const { outside, history } = this.#call;
    const protocolMeter = outside?.protocolMeter;
    if (protocolMeter === undefined) return;
    protocolMeter.attemptStarted(history.path);
    this.#note = { operation: history.path, status: undefined };
  }

  /** The response has begun: with a limit, another call may start. */
  answered(): void {
    this.lease.progressed();
    this.#owner.capacityFreed();
  }

  /** Another pick for the same call follows. It replaces this one if this never started because its connection was lost. */
  another(): void {
    if (!this.#begun && !this.#leaf.ready) this.#end(outcomes.notStarted);
    this.#followed = true;
    this.#report();
  }

  /** The call is over: an unused pick is returned, and a failure was not followed by another attempt. */
  callEnded(): void {
    this.#end(outcomes.notStarted);
    this.#report();
  }

  #finished(code: statusCode, details: string, metadata: Metadata): void {
    const { answeredMs, history, messages } = this.#call;
    const answered = answeredMs !== undefined;
    if (this.#note !== undefined) this.#note.status = code;
    // A stream that was quiet until its caller or its deadline ended it says nothing about the pod.
    const quiet = answered || history.streaming;
    if (code === statusCode.OK && this.#call.isHedged && this.previous !== undefined) this.lease.retries.hedgeWon();
    const report = loadReportOf(metadata);
    if (report !== undefined) this.#owner.heardReport();
    const outcome =
      code === statusCode.OK && report === undefined
        ? outcomes.success
        : outcomeOf({ code, details, metadata, quiet, endpoint: this.lease.endpoint }, report);
    if (this.#trace !== undefined) this.#trace.status = statusCode[code];
    // Not an Error: its stack would be grpc-js's, and an outage causes thousands a second.
    if (outcome.kind === 'failure') this.#error = { code: statusCode[code], details };
    else if (outcome.kind === 'cancelled' && (quiet || !history.single)) this.lease.progressed();
    let latencyMs: number | undefined;
    // A single response arrives at the end of the call. A stream lasts as long as it is needed, so only its start counts, if known.
    if (answered && messages !== 1) latencyMs = answeredMs - this.lease.startedMs;
    else if (outcome.kind === 'cancelled' && quiet) latencyMs = 0;
    this.#end(outcome, latencyMs);
    if (this.#followed) this.#report();
    if (code === statusCode.OK) return;
    const call = this.#call;
    call.lastStatus = { code, details, metadata };
    if (call.isOverBudget) this.#owner.placed();
  }

  #end(outcome: Outcome, latencyMs?: number): void {
    if (this.isOver) return;
    this.isOver = true;
    const { lease } = this;
    lease.handle.callEnded(this.#leaf);
    lease.end(outcome, latencyMs, this.#note);
    this.#trace?.end(outcome, this.#error);
    this.#owner.capacityFreed();
  }

  get #reason(): AttemptReason {
    if (this.previous === undefined) return 'first';
    if (!this.previous.#begun) return 'move';
    return this.#call.isHedged ? 'hedge' : 'retry';
  }

  /** Whether another attempt follows is known only when it starts, or when the call is over. */
  #report(): void {
    const { lease } = this;
    if (!this.isOver || this.#reported) return;
    this.#reported = true;
    if (this.#followed) {
      const { outcome, retries } = lease;
      if (outcome?.kind === 'not-started') retries.followed('not-started');
      else if (outcome?.kind === 'failure' && !this.#call.isHedged) retries.followed(outcome.cause ?? 'status');
    }
    if (!observes(lease.observer, 'attemptEnded')) return;
    reportAttempt(lease, { attempt: this.#number, retrying: this.#followed, error: this.#error });
  }
}
