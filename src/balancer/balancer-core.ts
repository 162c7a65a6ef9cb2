import { type AcquireOptions, checkAcquireOptions, type PickOptions, signalOnly } from '../call/acquire-options.js';
import { CallLease, CallTimes, type LeaseOwner } from '../call/lease.js';
import { type RunOptions, runCall, type Use } from '../call/run-call.js';
import { WaitingRoom } from '../call/waiting-room.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { type EvenkeelError, isEvenkeelError } from '../errors.js';
import { CallLimit } from '../limit/call-limit.js';
import { EventCounts } from '../observe/event-counts.js';
import type { CallMeter } from '../observe/live-balancers.js';
import { notify, type Observer, withDiagnostics } from '../observe/observer.js';
import { Warnings } from '../observe/warnings.js';
import type { PickTarget } from '../picker/picker.js';
import type { Subchannel } from '../pool/subchannel.js';
import { RetryRules } from '../retry/retry-policy.js';
import { checkKeys, checkSignal, optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { Closing } from '../runtime/closing.js';
import { ownProperties } from '../runtime/own-properties.js';
import type { Stopper } from '../runtime/stopper.js';
import type { ResolvedBalancerOptions } from './balancer-options.js';
import { CurrentPicker } from './current-picker.js';
import { Endpoints } from './endpoints.js';
import { closedError, overloadError, tooLateError } from './refusals.js';
import { type BalancerSnapshot, liveBalancers, snapshotBalancer } from './snapshot.js';

/** The implementation of `Balancer`: wires its parts together, and picks. `balancer.ts` documents the contract. */
export class BalancerCore<C> implements LeaseOwner<C> {
  readonly retries: RetryRules;
  readonly observer: Observer;
  readonly name: string;
  readonly clock: Clock;
  readonly limit: CallLimit | undefined;
  /** Measures calls for metrics; undefined while nobody reads metrics. */
  meter: CallMeter | undefined = undefined;
  readonly #events = new EventCounts();
  readonly #options: ResolvedBalancerOptions<C>;
  readonly #warnings: Warnings;
  readonly #currentPicker: CurrentPicker<C>;
  readonly #room: WaitingRoom<C>;
  readonly #times: CallTimes<C>;
  readonly #endpoints: Endpoints<C>;
  /** How many calls got no endpoint. */
  #refused = 0;
  readonly #cut = new AbortController();
  readonly #closing = new Closing(
    () => this.#shutDown(),
    () => this.#cut.abort(),
  );

  constructor(options: ResolvedBalancerOptions<C>) {
    const { clock, rng, resolver } = options;
    this.#options = options;
    this.clock = clock;
    const limit = options.limit?.();
    const observer = withDiagnostics(options.observer, resolver.name, this.#events.hooks);
    const warnings = new Warnings(observer, clock);
    this.#warnings = warnings;
    this.observer = observer;
    this.name = resolver.name;
    this.retries = new RetryRules(options.retry, clock, warnings);
    this.limit = limit === undefined ? undefined : new CallLimit(limit, warnings);
    this.#times = new CallTimes(this, options.stalledAfterMs);
    this.#currentPicker = new CurrentPicker(options.picker, rng, warnings);
    this.#room = new WaitingRoom<C>({
      clock,
      maxWaiting: options.maxWaiting,
      limit: this.limit,
      overload: (waitedMs) => overloadError(this.#endpoints.feed, this.limit as CallLimit, waitedMs),
      tooLate: (leftMs) => tooLateError(this.#endpoints.feed, this.limit as CallLimit, leftMs),
      stalledSince: (sinceMs) => this.#times.stalledSince(sinceMs),
      tryPick: (key, avoid, unlimited) => this.#pick(key, subchannelsOf(avoid), true, unlimited),
      timedOut: (limitMs) => this.#endpoints.refusals.after(limitMs),
    });
    this.#endpoints = new Endpoints({
      options,
      currentPicker: this.#currentPicker,
      room: this.#room,
      observer,
      warnings,
      events: this.#events,
    });
    liveBalancers.add(this);
  }

  pick(options?: PickOptions): CallLease<C> | undefined {
    const lease = this.#pickInTurn(options);
    if (lease === undefined && !this.#currentPicker.hasReady) this.#endpoints.first.missed();
    return lease;
  }

  /** @param stopper Ends the wait of a call of evenkeel's own, whose options need no check. */
  async acquire(callersOptions: AcquireOptions = {}, stopper?: Stopper): Promise<CallLease<C>> {
    const options = stopper === undefined ? checkAcquireOptions(callersOptions) : callersOptions;
    const { key, avoid, unlimited, priority, signal, waitForReady, timeoutMs = this.#options.waitTimeoutMs } = options;
    signal?.throwIfAborted();
    if (stopper?.isStopped) throw stopper.reason;
    const lease = this.#pickInTurn(options, true);
    if (lease !== undefined) return lease;
    let sinceMs: number | undefined;
    this.#missedEndpoints();
    try {
      if (this.#closing.hasBegun) throw closedError();
      const refusal = waitForReady === true ? undefined : this.#endpoints.refusals.atOnce;
      if (refusal !== undefined) throw refusal;
      // The waiting room counts this caller from now on, so its missed pick no longer counts as another waiting caller.
      this.#endpoints.first.joined();
      sinceMs = this.clock.now();
      const { limitMs = timeoutMs, deadlineMs } = options;
      const waits = this.#room.wait({
        key,
        avoid,
        unlimited,
        priority,
        signal,
        stopper,
        timeoutMs,
        limitMs,
        deadlineMs,
        waitForReady,
      });
      this.#endpoints.judgeWaiting();
      const served = await waits;
      this.meter?.waited(this.clock.now() - sinceMs, true);
      return served;
    } catch (error) {
      if (sinceMs !== undefined) this.meter?.waited(this.clock.now() - sinceMs, false);
      if (isEvenkeelError(error)) this.#refuse(error);
      throw error;
    }
  }

  refuse(error: EvenkeelError): void {
    this.#missedEndpoints();
    this.#refuse(error);
  }

  run<T>(use: Use<C, T>, options: RunOptions = {}): Promise<T> {
    return runCall(this, use, options);
  }

  async ready(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    checkKeys('ready', options, signalOnly);
    const { signal } = ownProperties(options);
    checkSignal('signal', signal);
    return this.#endpoints.start.wait(signal);
  }

  snapshot(): BalancerSnapshot {
    const { feed, pool, refusals } = this.#endpoints;
    return snapshotBalancer({
      isClosed: this.#closing.hasBegun,
      isFilled: this.#currentPicker.picker !== undefined,
      isEmpty: refusals.isEmpty,
      feed,
      events: this.#events,
      pool,
      limit: this.limit,
      retries: this.retries,
      callers: {
        waiting: this.#room.size,
        refused: this.#refused,
        shed: this.#room.shed,
      },
      nowMs: this.clock.now(),
    });
  }

  close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { signal } = ownProperties(options);
    try {
      checkKeys('close', options, signalOnly);
      checkSignal('signal', signal);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#closing.close(signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  madeRoom(): void {
    this.#room.wake();
  }

  callEnded(subchannel: Subchannel<C>): void {
    if (this.#currentPicker.wantsEnds) this.#currentPicker.ended(subchannel);
    this.#room.wake();
  }

  misused(value: unknown): Outcome {
    const error = optionError('the outcome', 'an outcome such as outcomes.success', value);
    this.#warnings.warn('a lease was ended with something that is not an outcome', error);
    return outcomes.cancelled;
  }

  /** A call found no endpoint. If the set is empty, its resolver is asked to look again. */
  #missedEndpoints(): void {
    const { refusals, feed } = this.#endpoints;
    if (refusals.isEmpty) feed.refresh();
  }

  #refuse(error: EvenkeelError): void {
    this.#refused++;
    notify(this.observer, 'refused', { error });
  }

  #pickInTurn(options: PickOptions | undefined, mayWait = false): CallLease<C> | undefined {
    // Callers that already wait get endpoints before a new caller does.
    this.#room.wake();
    if (options === undefined) return this.#pick(undefined, undefined);
    return this.#pick(options.key, subchannelsOf(options.avoid), mayWait, options.unlimited);
  }

  /** @param mayWait Whether a call that only an avoided endpoint could take now may wait for another endpoint, which is full. */
  #pick(
    key: string | undefined,
    avoid: ReadonlySet<Subchannel<C>> | undefined,
    mayWait = false,
    unlimited = false,
  ): CallLease<C> | undefined {
    if (this.#currentPicker.picker === undefined || (this.limit?.hasRoom === false && !unlimited)) return undefined;
    const nowMs = this.clock.now();
    const subchannel = this.#choose(nowMs, key, avoid);
    // The picker may still contain a subchannel that has just lost its connection.
    const connection = subchannel?.connection;
    if (subchannel === undefined || connection === undefined) return this.#currentPicker.unusable(subchannel);
    if (mayWait && avoid?.has(subchannel) === true && this.#endpoints.pool.hasReadyBut(avoid)) return undefined;
    subchannel.start(nowMs);
    this.#times.began();
    const lease = new CallLease(this.#times, subchannel, connection.handle, nowMs);
    // A call outside the limit is treated as one whose response has begun, because such calls do not count against the limit.
    if (unlimited && this.limit !== undefined) lease.progressed();
    return lease;
  }

  /** Returns the picker's choice. A picker that throws is replaced, so that it does not fail every call. */
  #choose(
    nowMs: number,
    key: string | undefined,
    avoid: ReadonlySet<Subchannel<C>> | undefined,
  ): Subchannel<C> | undefined {
    const currentPicker = this.#currentPicker;
    if (currentPicker.firstLeft >= 0) return currentPicker.pickFirst(nowMs, key, avoid);
    const { request } = currentPicker;
    request.nowMs = nowMs;
    request.key = key;
    request.avoid = avoid;
    try {
      return currentPicker.picker?.pick(request);
    } catch (error) {
      return currentPicker.pickInstead(error);
    }
  }

  async #shutDown(): Promise<void> {
    liveBalancers.remove(this);
    this.#currentPicker.clear();
    this.#times.close();
    const { drainTimeoutMs: limitMs } = this.#options.pool;
    const timer = Number.isFinite(limitMs) ? this.clock.timer(() => this.#cut.abort(), limitMs) : undefined;
    timer?.ref();
    await this.#endpoints.close(this.#cut.signal);
    timer?.cancel();
  }
}

/** Converts the targets that a caller avoids: they come from leases of this balancer, so they are subchannels. */
const subchannelsOf = <C>(avoid: ReadonlySet<PickTarget> | undefined): ReadonlySet<Subchannel<C>> | undefined =>
  avoid as ReadonlySet<Subchannel<C>> | undefined;
