import { experimental, Metadata, status as statusCode } from '@grpc/grpc-js';
import { type Balancer, type Lease, outcomes, type PickOptions, type Priority } from '../../index.js';
import { checkPriority, loadReportFormatHeader, notify, type ReportAsking } from '../kit/index.js';
import type { Admission } from './admission.js';
import { Attempt, BalancedCall, type CallStatus } from './balanced-call.js';
import type { AttemptOwner } from './call-owner.js';
import { LimitPlace } from './limit-place.js';
import { MethodHistory } from './method-history.js';
import type { CallKey, ResolvedGrpcOptions } from './options.js';
import type { PodConnection } from './pod-connection.js';
import type { Refusal } from './refusal.js';

/** The metadata entry in which grpc-js counts the attempts before this one; those that no server has seen do not count. */
const PREVIOUS_ATTEMPTS = 'grpc-previous-rpc-attempts';

const queued: experimental.PickResult = Object.freeze({
  pickResultType: experimental.PickResultType.QUEUE,
  subchannel: null,
  status: null,
  onCallStarted: null,
  onCallEnded: null,
});

/** Converts the balancer's picks to the form grpc-js needs. One per policy, because the balancer swaps its own picker inside. */
export class BalancerPicker implements experimental.Picker {
  readonly #balancer: Balancer<PodConnection>;
  readonly #admission: Admission;
  readonly #owner: AttemptOwner;
  readonly #options: ResolvedGrpcOptions;
  readonly #key: CallKey | undefined;
  readonly #asking: ReportAsking | undefined;

  constructor(
    balancer: Balancer<PodConnection>,
    admission: Admission,
    owner: AttemptOwner,
    options: ResolvedGrpcOptions,
    asking: ReportAsking | undefined,
  ) {
    this.#balancer = balancer;
    this.#admission = admission;
    this.#owner = owner;
    this.#options = options;
    this.#key = options.key;
    this.#asking = asking;
  }

  pick({ metadata, extraPickInfo }: experimental.PickArgs): experimental.PickResult {
    const info: unknown = extraPickInfo;
    const call = info instanceof BalancedCall ? info : new BalancedCall(new MethodHistory(), this.#options.clock);
    call.picking(this.#balancer);
    const unpaid = this.#unpaid(call, metadata);
    if (unpaid !== undefined) return unpaid;
    call.another();
    const refusal = call.place?.refusal;
    if (refusal !== undefined) {
      call.place = undefined;
      // The balancer has told its observer.
      return refusal.result();
    }
    if (call.place?.isWaiting) return queued;
    const options = this.#pickOptions(call, metadata);
    const lease = call.place?.take() ?? this.#balancer.pick(options);
    call.place = undefined;
    const leaf = lease?.handle.leastBusy();
    if (lease === undefined || leaf === undefined) {
      lease?.end(outcomes.notStarted);
      return this.#notNow(call, metadata, options);
    }
    call.waited(true);
    if (this.#admission.isWaited) this.#admission.placed();
    call.waitingSinceMs = undefined;
    this.#sayPriority(metadata);
    // The attempt's own copy of the metadata.
    if (this.#asking?.next() === true && metadata.get(loadReportFormatHeader).length === 0) {
      metadata.set(loadReportFormatHeader, 'BIN');
    }
    const attempt = new Attempt(call, lease, leaf, this.#owner);
    if (call.trace !== undefined) attempt.trace(call.trace, metadata);
    return attempt;
  }

  /**
   * grpc-js decides about retries and hedges, and pays for them from the balancer's budget. If that is empty, a retry is not made, and
   * the call ends as its last attempt did; a hedge waits as long as another attempt is running. What no server has seen is free.
   */
  #unpaid(call: BalancedCall, metadata: Metadata): experimental.PickResult | undefined {
    const { retries } = this.#balancer;
    if (call.paid === 0) {
      call.paid = 1;
      return undefined;
    }
    const number = 1 + Number(metadata.get(PREVIOUS_ATTEMPTS)[0] ?? 0);
    if (number <= call.paid) return undefined;
    const { isRunning } = call;
    call.isOverBudget = false;
    if (retries.pays()) {
      call.paid = number;
      return undefined;
    }
    call.isOverBudget = isRunning;
    if (isRunning) return queued;
    call.isGivenUp = true;
    return dropped(call.lastStatus);
  }

  #pickOptions(call: BalancedCall, metadata: Metadata): PickOptions<PodConnection> | undefined {
    const { tried } = call;
    if (this.#key === undefined) return tried === undefined ? undefined : { avoid: tried };
    return { key: this.#keyOf(this.#key, metadata), avoid: tried };
  }

  #keyOf(key: CallKey, metadata: Metadata): string | undefined {
    try {
      return key(metadata) ?? undefined;
    } catch (error) {
      // An error thrown here would reach the code that started the call, or a timer.
      notify(this.#balancer.observer, 'warned', { message: 'key threw; the call has no key', error });
      return undefined;
    }
  }

  #priorityOf(metadata: Metadata): Priority | undefined {
    try {
      const priority = this.#options.priority?.(metadata);
      return priority === undefined ? undefined : checkPriority(priority);
    } catch (error) {
      notify(this.#balancer.observer, 'warned', { message: 'priority threw; the call has none', error });
      return undefined;
    }
  }

  #sayPriority(metadata: Metadata): void {
    const { priorityHeader } = this.#options.propagation;
    if (!this.#options.hasPriority || priorityHeader === undefined || metadata.get(priorityHeader).length > 0) return;
    const priority = this.#priorityOf(metadata);
    if (priority !== undefined && priority !== 'default') metadata.set(priorityHeader, priority);
  }

  #notNow(
    call: BalancedCall,
    metadata: Metadata,
    options: PickOptions<PodConnection> | undefined,
  ): experimental.PickResult {
    const { limit } = this.#balancer;
    const refusal = this.#admission.refusal;
    if (refusal === undefined && limit !== undefined && limit.running >= limit.max) {
      const acquired = (signal: AbortSignal): Promise<Lease<PodConnection>> =>
        this.#balancer.acquire({ ...options, signal, priority: this.#priorityOf(metadata) });
      call.waited(undefined);
      call.place = new LimitPlace(acquired, () => this.#owner.placed());
      call.trace?.waits();
      return queued;
    }
    const turnedAway = refusal ?? this.#admission.wait(call);
    if (turnedAway !== undefined) return this.#refused(call, turnedAway, metadata);
    call.trace?.waits();
    call.waits(this.#balancer);
    return queued;
  }

  #refused(call: BalancedCall, refusal: Refusal, metadata: Metadata): experimental.PickResult {
    const waits = metadata.getOptions().waitForReady === true && !refusal.final;
    if (waits) {
      call.waits(this.#balancer);
    } else {
      call.waited(false);
      this.#balancer.outside.refuse(refusal.error);
    }
    return refusal.result();
  }
}

/** The result for an attempt that is not made. A drop is not retried. */
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
