import { experimental, Metadata, status as statusCode } from '@grpc/grpc-js';
import { type Balancer, outcomes, type PickOptions, type Priority } from '../../index.js';
import {
  balancerDefaults,
  callLease,
  checkPriority,
  ignoreRejection,
  loadReportFormatHeader,
  notify,
} from '../kit/index.js';
import type { Admission, PickFailure } from './admission.js';
import { type AttemptOwner, BalancedCall, type CallStatus, GrpcAttempt } from './balanced-call.js';
import { pickInformationOf, previousAttempts } from './internals.js';
import type { CallKey, ResolvedGrpcOptions } from './options.js';
import type { PodConnection } from './pod-connection.js';
import { Method } from './service-config.js';
import { WaitingCall } from './waiting-call.js';

const { DROP } = experimental.PickResultType;
/**
 * The largest number of attempts of one call that cost no retry, because connections that took no more calls refused the earlier attempts.
 */
const MAX_FREE = 100;

const queued: experimental.PickResult = Object.freeze({
  pickResultType: experimental.PickResultType.QUEUE,
  subchannel: null,
  status: null,
  onCallStarted: null,
  onCallEnded: null,
});

/** Converts the balancer's picks to pick results of grpc-js. There is one per policy, because the balancer swaps its own picker inside. */
export class BalancerPicker implements experimental.Picker, AttemptOwner {
  readonly settled: () => void;
  readonly #admission: Admission;
  readonly #balancer: Balancer<PodConnection>;
  readonly #options: ResolvedGrpcOptions;

  /** @param settled As `AttemptOwner.settled`. */
  constructor(
    balancer: Balancer<PodConnection>,
    admission: Admission,
    options: ResolvedGrpcOptions,
    settled: () => void,
  ) {
    this.#balancer = balancer;
    this.#admission = admission;
    this.#options = options;
    this.settled = settled;
  }

  pick(args: experimental.PickArgs): experimental.PickResult {
    const { metadata } = args;
    const info = pickInformationOf(args);
    const call = info instanceof BalancedCall ? info : new BalancedCall(new Method());
    // grpc-js starts a call even if it was canceled, or its deadline passed, while the call was prepared; nobody would end that attempt.
    if (call.isOver) return dropped(call.lastStatus);
    if (call.paid === 0) call.begins(this.#balancer);
    else {
      const settled = this.#pickedAgain(call, metadata);
      if (settled !== undefined) return settled;
    }
    const { key, hasPriority, askForReports } = this.#options;
    const options = key === undefined && call.last === undefined ? undefined : this.#pickOptions(call, key, metadata);
    const lease = call.waiting?.take() ?? this.#balancer.pick(options);
    const connection = lease?.handle.next();
    if (lease === undefined || connection === undefined) {
      lease?.end(outcomes.notStarted);
      return this.#notNow(call, metadata, options);
    }
    call.waiting = undefined;
    if (hasPriority) this.#sayPriority(metadata);
    // The header may be set directly, because the metadata are this attempt's own copy.
    if (lease.handle.reportAsking.next(askForReports) && metadata.get(loadReportFormatHeader).length === 0) {
      metadata.set(loadReportFormatHeader, 'BIN');
    }
    const attempt = new GrpcAttempt(call, callLease(lease), connection, this);
    if (call.trace !== undefined) attempt.trace(call.trace, metadata);
    return attempt;
  }

  /** Handles a repeated pick for one call (a retry, or a call that waited). Returns the pick result if it is already known. */
  #pickedAgain(call: BalancedCall, metadata: Metadata): experimental.PickResult | undefined {
    const unpaid = this.#unpaid(call, metadata);
    if (unpaid !== undefined) return unpaid;
    call.followedByPick();
    const { waiting } = call;
    if (waiting === undefined) return undefined;
    const refusal = this.#refusalFor(metadata);
    if (waiting.error !== undefined) {
      call.waiting = undefined;
      // The balancer has already notified its observer of this refusal.
      return failed(call, refusal ?? this.#admission.rejected(waiting.error, this.#balancer.name));
    }
    if (!waiting.isWaiting) return undefined;
    if (refusal === undefined) return queued;
    waiting.leave();
    return this.#refuse(call, refusal);
  }

  /**
   * Decides whether an attempt may be made; undefined if it may. grpc-js decides about retries and hedges, and the balancer's retry budget
   * pays for them. If the budget is empty, a retry is not made, and the call ends as its last attempt did; a hedge waits as long as another
   * attempt is running. An attempt is free if its predecessor was refused by a leaving connection, so that no server has seen the call.
   */
  #unpaid(call: BalancedCall, metadata: Metadata): experimental.PickResult | undefined {
    const { retries } = this.#balancer;
    const number = 1 + Number(metadata.get(previousAttempts)[0] ?? 0);
    if (number <= call.paid) return undefined;
    const { isRunning } = call;
    call.isOverBudget = false;
    const isFree = call.isRefusedForFree && number <= MAX_FREE;
    if (isFree || (call.mayRepeat && retries.pays())) {
      call.paid = number;
      return undefined;
    }
    call.isOverBudget = isRunning;
    if (isRunning) return queued;
    call.isGivenUp = true;
    return dropped(call.lastStatus);
  }

  #pickOptions(call: BalancedCall, key: CallKey | undefined, metadata: Metadata): PickOptions {
    const { tried } = call;
    return key === undefined ? { avoid: tried } : { key: this.#keyOf(key, metadata), avoid: tried };
  }

  #keyOf(key: CallKey, metadata: Metadata): string | undefined {
    try {
      const value = key(metadata) ?? undefined;
      // An async function is a mistake, and its rejection must not end the process.
      ignoreRejection(value);
      return value;
    } catch (error) {
      // An error thrown here would reach the code that started the call, or a timer.
      notify(this.#balancer.observer, 'warned', { message: 'key threw; the call has no key', error });
      return undefined;
    }
  }

  #priorityOf(metadata: Metadata): Priority | undefined {
    try {
      const priority = this.#options.priority?.(metadata);
      ignoreRejection(priority);
      return priority === undefined ? undefined : checkPriority(priority);
    } catch (error) {
      notify(this.#balancer.observer, 'warned', { message: 'priority threw; the call has none', error });
      return undefined;
    }
  }

  #sayPriority(metadata: Metadata): void {
    const { priorityHeader } = this.#options.propagation;
    if (priorityHeader === undefined || metadata.get(priorityHeader).length > 0) return;
    const priority = this.#priorityOf(metadata);
    if (priority !== undefined && priority !== 'default') metadata.set(priorityHeader, priority);
  }

  /** Why a call fails at once that cannot be placed; undefined if it waits, as calls with `waitForReady` do unless the channel is closed. */
  #refusalFor(metadata: Metadata): PickFailure | undefined {
    const { refusal } = this.#admission;
    return refusal !== undefined && (refusal.final || !waitsForReady(metadata)) ? refusal : undefined;
  }

  #notNow(call: BalancedCall, metadata: Metadata, options: PickOptions | undefined): experimental.PickResult {
    const refusal = this.#refusalFor(metadata);
    if (refusal !== undefined) return this.#refuse(call, refusal);
    const { clock } = this.#balancer;
    const { waitTimeoutMs = balancerDefaults.waitTimeoutMs } = this.#options.balancing;
    const limitMs = waitsForReady(metadata) ? Number.POSITIVE_INFINITY : waitTimeoutMs;
    // If the connection of the endpoint for which the call waited was lost, the call waits on, for the rest of its time.
    const sinceMs = call.waiting?.sinceMs ?? clock.now();
    const timeoutMs = Math.max(0, limitMs - (clock.now() - sinceMs));
    const priority = this.#priorityOf(metadata);
    // Whether the state of the Service ends the waiting is decided here, by the channel's state.
    const waiting = { ...options, priority, timeoutMs, limitMs, waitForReady: true };
    call.waiting = new WaitingCall(sinceMs, this.#balancer, waiting, this.settled);
    call.trace?.waits();
    return queued;
  }

  #refuse(call: BalancedCall, refusal: PickFailure): experimental.PickResult {
    call.waiting = undefined;
    this.#balancer.refuse(refusal.error);
    return failed(call, refusal);
  }
}

function waitsForReady(metadata: Metadata): boolean {
  return metadata.getOptions().waitForReady === true;
}

/** The pick result for a call that got no endpoint. */
function failed({ method }: BalancedCall, failure: PickFailure): experimental.PickResult {
  const result = failure.result();
  // The call ends now, because its method allows another attempt only after a pod refused the call.
  return method.repeatsRefusedOnly ? { ...result, pickResultType: DROP } : result;
}

/** The pick result for an attempt that is not made, by which the call ends, because grpc-js does not retry a dropped call. */
function dropped(last: CallStatus | undefined): experimental.PickResult {
  const {
    code = statusCode.UNAVAILABLE,
    details = 'the retry budget is empty',
    metadata = new Metadata(),
  } = last ?? {};
  return {
    pickResultType: experimental.PickResultType.DROP,
    subchannel: null,
    status: { code, details, metadata: metadata.clone() },
    onCallStarted: null,
    onCallEnded: null,
  };
}
