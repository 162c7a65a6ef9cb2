import { connectivityState, experimental, Metadata, status } from '@grpc/grpc-js';
import { type Clock, EvenkeelError, type PickSet, type ResolveError, type Timer } from '../../index.js';
import { balancerDefaults, type Subchannel } from '../kit/index.js';
import type { PodConnection } from './pod-connection.js';

/** Why the calls of a channel fail. The error's code is in the message of each call's status, and in its metadata as `evenkeel-code`. */
export class PickFailure {
  readonly error: EvenkeelError;
  /** Whether calls with `waitForReady` fail as well. */
  readonly final: boolean;
  readonly code: status;
  readonly details: string;

  constructor(error: EvenkeelError, code: status = status.UNAVAILABLE, final = false) {
    this.error = error;
    this.final = final;
    this.code = code;
    this.details = `${error.message} (${error.code})`;
  }

  /** The pick result by which one call fails. Its metadata is a copy, because grpc-js writes to it. */
  result(): experimental.PickResult {
    const { TRANSIENT_FAILURE, DROP } = experimental.PickResultType;
    const metadata = new Metadata();
    metadata.set('evenkeel-code', this.error.code);
    return {
      pickResultType: this.final ? DROP : TRANSIENT_FAILURE,
      subchannel: null,
      status: { code: this.code, details: this.details, metadata },
      onCallStarted: null,
      onCallEnded: null,
    };
  }
}

/** Creates the error for calls on a channel that was closed, or whose balancer was closed. */
export function closedError(service: string): EvenkeelError {
  return new EvenkeelError('EVENKEEL_CLOSED', `${service}: the channel is closed`);
}

/** The options that decide whether a call waits or fails. */
export interface AdmissionOptions {
  /** The channel: the name of its Service, which every message contains, and whether it is closed and places no more calls. */
  readonly channel: { readonly service: string; readonly closed: boolean };
  readonly clock: Clock;
  readonly waitTimeoutMs?: number | undefined;
  readonly maxWaiting?: number | undefined;
  readonly waitForEndpoints?: boolean | undefined;
  /** Whether the Service is known to have no usable endpoint, rather than only none with weight just now. */
  readonly isEmpty: () => boolean;
}

/** A call that cannot be placed now, as `Admission` sees it. */
export interface Waiter {
  /** Since when the call has waited; undefined until it is first made to wait. */
  sinceMs: number | undefined;
  /** Whether the call still waits: it was neither placed nor turned away, and its caller did not give up. */
  readonly isWaiting: boolean;
}

/** Milliseconds between two recounts of the waiting calls while their number is at its limit. */
const RECOUNT_MS = 100;

/**
 * The state of a channel in gRPC's terms, and the decision about calls that cannot be placed: a call waits while that may help, otherwise
 * it fails with a message that says why. Calls wait inside grpc-js, so this class only knows how many wait, and for how long no call was
 * placed. A call that has waited for `waitTimeoutMs` fails when it is tried again.
 */
export class Admission {
  readonly #channel: AdmissionOptions['channel'];
  readonly #clock: Clock;
  readonly #waitTimeoutMs: number;
  readonly #maxWaiting: number;
  readonly #waitForEndpoints: boolean;
  readonly #isEmpty: () => boolean;
  readonly #changed: () => void;
  readonly #full: PickFailure;
  /**
   * How many calls have been made to wait since all waiting calls were last tried again, including calls that gave up since then. Only
   * `Admission` writes this field.
   */
  waiting = 0;
  /** Whether a call was made to wait and none has been placed since; `placed` must then be called for the next call that is placed. */
  isWaited = false;
  /** Whether all waiting calls are to be tried again because one of them need not wait any longer, whatever the state of the channel. */
  isSettled = false;
  /** The endpoints to pick from; undefined until the resolver has delivered its first set. */
  #set: PickSet<Subchannel<PodConnection>> | undefined;
  /** How many endpoints the resolver listed. */
  #listed = 0;
  /** The resolver's error while there is no first set. */
  #resolveError: ResolveError | undefined;
  #staleError: ResolveError | undefined;
  /** Why the endpoint set is empty, in words. */
  #emptyReason: string | undefined;
  #refusal: PickFailure | undefined;
  /** A timer that runs from the first call made to wait until a call is placed. */
  #patience: Timer | undefined;
  /** Whether the call for which `#patience` ran gave up, so that it is to run for the next one, from when that began to wait. */
  #isForNext = false;
  #impatient = false;
  #recount: Timer | undefined;

  /** @param changed Called when `assess` may have another result, or waiting calls should be tried again. */
  constructor(options: AdmissionOptions, changed: () => void) {
    this.#channel = options.channel;
    this.#clock = options.clock;
    this.#waitTimeoutMs = options.waitTimeoutMs ?? balancerDefaults.waitTimeoutMs;
    this.#maxWaiting = options.maxWaiting ?? balancerDefaults.maxWaiting;
    this.#waitForEndpoints = options.waitForEndpoints ?? balancerDefaults.waitForEndpoints;
    this.#isEmpty = options.isEmpty;
    this.#changed = changed;
    const full = `${options.channel.service}: ${this.#maxWaiting} calls wait for an endpoint already (maxWaiting)`;
    this.#full = new PickFailure(new EvenkeelError('EVENKEEL_QUEUE_FULL', full), status.RESOURCE_EXHAUSTED);
  }

  /** Why calls fail, as of the last `assess`; undefined while they are placed or wait. */
  get refusal(): PickFailure | undefined {
    return this.#refusal;
  }

  resolved(listed: number, reason?: string): void {
    this.#listed = listed;
    this.#emptyReason = reason;
    this.#resolveError = undefined;
    this.#staleError = undefined;
  }

  /** The resolver failed. @param stale Whether there is a set, which stays in use; if that set is empty, `error` says why. */
  resolveFailed(error: ResolveError, stale: boolean): void {
    if (stale) this.#staleError = error;
    else this.#resolveError = error;
    if (!stale || this.#listed === 0) this.#changed();
  }

  resolveRecovered(): void {
    this.#staleError = undefined;
  }

  /** The balancer has built a new picker over this set. */
  setChanged(set: PickSet<Subchannel<PodConnection>>): void {
    this.#set = set;
    if (set.targets.length > 0) this.#impatient = false;
    this.#changed();
  }

  /** The channel was closed. */
  closed(): void {
    this.stop();
    this.#changed();
  }

  /** A call that waited for the limit on running calls, or for the retry budget, can start or is rejected. */
  settled(): void {
    this.isSettled = true;
    this.#changed();
  }

  /** A call ended, or a pod can take more calls, so that a waiting call may start. */
  capacityFreed(): void {
    if (this.waiting > 0) this.#changed();
  }

  /** Stops the timers of this admission. */
  stop(): void {
    this.#patience?.cancel();
    this.#patience = undefined;
    this.#recount?.cancel();
    this.#recount = undefined;
  }

  /** Notes that a call was placed. Must be called while `isWaited` is true. */
  placed(): void {
    this.isWaited = false;
    this.#isForNext = false;
    this.#patience?.cancel();
    this.#patience = undefined;
    if (this.#impatient) {
      this.#impatient = false;
      this.#refusal = undefined;
    }
  }

  /** Decides about a call that cannot be placed now. Returns why the call fails, or undefined if it should wait. */
  wait(call: Waiter): PickFailure | undefined {
    const nowMs = this.#clock.now();
    call.sinceMs ??= nowMs;
    // The timer may not have fired although this call has waited long enough, because other calls were placed meanwhile.
    if (nowMs - call.sinceMs >= this.#waitTimeoutMs) return this.#waitedTooLong();
    if (this.waiting >= this.#maxWaiting) {
      this.#recount ??= this.#clock.timer(() => {
        this.#recount = undefined;
        this.#changed();
      }, RECOUNT_MS);
      return this.#full;
    }
    this.waiting++;
    this.isWaited = true;
    if (this.#patience === undefined) {
      const waitedMs = this.#isForNext ? nowMs - call.sinceMs : 0;
      this.#isForNext = false;
      this.#patience = this.#clock.timer(() => this.#waitedFor(call), this.#waitTimeoutMs - waitedMs);
    }
    return undefined;
  }

  /** No call was placed since `first` began to wait, `waitTimeoutMs` ago. */
  #waitedFor(first: Waiter): void {
    this.#patience = undefined;
    if (first.isWaiting) {
      this.#impatient = true;
      this.#changed();
      return;
    }
    // Calls that began to wait later have some of their time left. They are tried again, the oldest first, which starts the timer for it.
    this.#isForNext = true;
    this.settled();
  }

  /** grpc-js is about to try all waiting calls again, one after the other. */
  retrying(): void {
    this.waiting = 0;
    this.isSettled = false;
  }

  /** Reassesses the channel: sets `refusal`, and returns the channel's connectivity state. */
  assess(): connectivityState {
    const set = this.#set;
    const { service, closed } = this.#channel;
    if (closed) {
      this.#refusal = new PickFailure(closedError(service), status.UNAVAILABLE, true);
      return connectivityState.TRANSIENT_FAILURE;
    }
    this.#refusal = this.#why(set);
    if (set !== undefined && set.targets.length > 0) return connectivityState.READY;
    return this.#refusal === undefined ? connectivityState.CONNECTING : connectivityState.TRANSIENT_FAILURE;
  }

  #why(set: PickSet<Subchannel<PodConnection>> | undefined): PickFailure | undefined {
    if (set === undefined) {
      if (this.#resolveError !== undefined) return this.#because(this.#resolveError.code, this.#resolveError.message);
      return this.#impatient
        ? this.#because('EVENKEEL_NOT_READY', `no answer within ${this.#waitTimeoutMs} ms`)
        : undefined;
    }
    if (set.all.length === 0 && this.#isEmpty()) {
      if (this.#waitForEndpoints && !this.#impatient) return undefined;
      const listed = this.#listed;
      const why = listed === 0 ? 'it has no endpoint' : `none of its ${listed} endpoints is usable`;
      const reason = listed === 0 ? (this.#staleError?.message ?? this.#emptyReason) : undefined;
      return this.#because('EVENKEEL_NO_ENDPOINTS', reason === undefined ? why : `${why}; ${this.#unnamed(reason)}`);
    }
    if (this.#impatient) return this.#waitedTooLong();
    // Calls fail once every endpoint has failed, until an endpoint is ready, as with gRPC's own policies.
    const { all } = set;
    if (
      all.length > 0 &&
      all.every(({ state, lastError }) => state !== 'ready' && (lastError || state === 'backoff'))
    ) {
      return this.#because('EVENKEEL_NOT_READY', `no endpoint can be reached (${describe(set)})`);
    }
    return undefined;
  }

  #waitedTooLong(): PickFailure {
    const within = `no endpoint could take a call within ${this.#waitTimeoutMs} ms`;
    const statesText = this.#set === undefined ? '' : ` (${describe(this.#set)})`;
    return this.#because('EVENKEEL_NOT_READY', `${within}${statesText}`);
  }

  #because(code: EvenkeelError['code'], why: string): PickFailure {
    const { service } = this.#channel;
    return new PickFailure(new EvenkeelError(code, `${service}: ${this.#unnamed(why)}`));
  }

  /** Removes the Service's name from the start of a message, because the caller's message already begins with that name. */
  #unnamed(why: string): string {
    const name = `${this.#channel.service}: `;
    return why.startsWith(name) ? why.slice(name.length) : why;
  }
}

/** Describes the states of the endpoints: `2 connecting, 1 at capacity; <what went wrong last>`. */
function describe({ all }: PickSet<Subchannel<PodConnection>>): string {
  if (all.length === 0) return 'all are on standby';
  const states = new Map<string, number>();
  let cause = '';
  for (const { state, inFlight, capacity, lastError } of all) {
    const name = state === 'ready' && inFlight >= capacity ? 'at capacity' : state;
    states.set(name, (states.get(name) ?? 0) + 1);
    if (cause === '' && lastError !== undefined) cause = `; ${lastError.message}`;
  }
  return [...states].map(([state, count]) => `${count} ${state}`).join(', ') + cause;
}
