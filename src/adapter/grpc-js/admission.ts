import { connectivityState, experimental, Metadata, status } from '@grpc/grpc-js';
import { EvenkeelError, type PickSet, type ResolveError } from '../../index.js';
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

/** Error codes with which a call ends at once, because trying again would not help it. */
const fullCodes: ReadonlySet<string> = new Set(['EVENKEEL_OVERLOAD', 'EVENKEEL_TOO_LATE', 'EVENKEEL_QUEUE_FULL']);

/** What decides whether calls fail at once. */
export interface AdmissionOptions {
  /** The channel: the name of its Service, which every message contains, and whether it is closed and places no more calls. */
  readonly channel: { readonly service: string; readonly closed: boolean };
  readonly waitForEndpoints?: boolean | undefined;
  /** Whether the Service is known to have no usable endpoint, rather than only none with weight just now. */
  readonly isEmpty: () => boolean;
}

/**
 * The state of a channel in gRPC's terms. While it is TRANSIENT_FAILURE, calls without `waitForReady` fail at once, with a message that says
 * why. In all other states a call that cannot be placed waits in the balancer.
 */
export class Admission {
  readonly #channel: AdmissionOptions['channel'];
  readonly #waitForEndpoints: boolean;
  readonly #isEmpty: () => boolean;
  readonly #changed: () => void;
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

  /** @param changed Called when `assess` may have another result. */
  constructor({ channel, waitForEndpoints, isEmpty }: AdmissionOptions, changed: () => void) {
    this.#channel = channel;
    this.#waitForEndpoints = waitForEndpoints ?? balancerDefaults.waitForEndpoints;
    this.#isEmpty = isEmpty;
    this.#changed = changed;
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
    this.#changed();
  }

  /** Why a call fails that the balancer rejected with `error`. @param resolver The resolver's name, with which messages may begin. */
  rejected({ code, message }: EvenkeelError, resolver: string): PickFailure {
    return this.#because(code, withoutName(message, resolver), fullCodes.has(code));
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
      return this.#resolveError && this.#because(this.#resolveError.code, this.#resolveError.message);
    }
    if (set.all.length === 0 && this.#isEmpty()) {
      if (this.#waitForEndpoints) return undefined;
      const listed = this.#listed;
      const why = listed === 0 ? 'it has no endpoint' : `none of its ${listed} endpoints is usable`;
      const reason = listed === 0 ? (this.#staleError?.message ?? this.#emptyReason) : undefined;
      return this.#because(
        'EVENKEEL_NO_ENDPOINTS',
        reason === undefined ? why : `${why}; ${withoutName(reason, this.#channel.service)}`,
      );
    }
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

  /** @param isFull Whether the call ends even if it waits for ready or has retries left. */
  #because(code: EvenkeelError['code'], why: string, isFull = false): PickFailure {
    const { service } = this.#channel;
    const error = new EvenkeelError(code, `${service}: ${withoutName(why, service)}`);
    return new PickFailure(error, isFull ? status.RESOURCE_EXHAUSTED : status.UNAVAILABLE, isFull);
  }
}

/** Removes a name from the start of a message, because every message of a channel begins with the name of its Service. */
function withoutName(message: string, name: string): string {
  return message.startsWith(`${name}: `) ? message.slice(name.length + 2) : message;
}

/** Describes the states of endpoints that cannot be reached: `2 backoff, 1 connecting; <what went wrong last>`. */
function describe({ all }: PickSet<Subchannel<PodConnection>>): string {
  const states = new Map<string, number>();
  let cause = '';
  for (const { state, lastError } of all) {
    states.set(state, (states.get(state) ?? 0) + 1);
    if (cause === '' && lastError !== undefined) cause = `; ${lastError.message}`;
  }
  return [...states].map(([state, count]) => `${count} ${state}`).join(', ') + cause;
}
