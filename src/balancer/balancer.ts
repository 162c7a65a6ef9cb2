import { EndpointSet } from '../endpoint/endpoint-set.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { EvenkeelError } from '../errors.js';
import { withDiagnostics } from '../observe/diagnostics-channel.js';
import { notify, type Observer } from '../observe/observer.js';
import type { Picker, PickRequest } from '../picker/picker.js';
import { Pool } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';
import { RetryPolicy } from '../retry/retry-policy.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';
import { applyStages, type Stage } from '../stage/stage.js';
import { type BalancerOptions, type ResolvedBalancerOptions, resolveBalancerOptions } from './balancer-options.js';
import { classifyError } from './classify.js';
import { EndpointFeed } from './endpoint-feed.js';
import { LatencyQuantile } from './latency-quantile.js';
import { Lease, type LeaseOwner } from './lease.js';
import { pickSetOf } from './pick-set.js';
import { type BalancerSnapshot, snapshotEndpoints } from './snapshot.js';
import { StartGate } from './start-gate.js';
import { WaitingRoom } from './waiting-room.js';

/** Which endpoint a call may go to. */
export interface PickOptions<C> {
  /** For hash pickers: calls with one key go to one endpoint. */
  readonly key?: string | undefined;
  /** Subchannels this call was tried on before. */
  readonly avoid?: ReadonlySet<Subchannel<C>> | undefined;
}

export interface AcquireOptions<C> extends PickOptions<C> {
  /** Ends the waiting; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly timeoutMs?: number | undefined;
}

export interface RunOptions {
  readonly signal?: AbortSignal;
  readonly key?: string;
  /** Whether the call may be done twice without harm. @defaultValue false */
  readonly idempotent?: boolean;
  /** The outcome of what `use` threw. @defaultValue system errors are known, all others are failures that are not repeated */
  readonly classify?: (error: unknown) => Outcome;
}

/** The whole corridor for one Service: finds endpoints, keeps connections, picks one per call. */
export interface Balancer<C> extends AsyncDisposable {
  /** Picks now or not at all. The caller owes the lease one `end`. Never throws, never waits. */
  pick(options?: PickOptions<C>): Lease<C> | undefined;
  /**
   * Picks, waiting if it must. Rejects with EVENKEEL_NO_ENDPOINTS (known to be empty), _NOT_READY (waited in vain),
   * _QUEUE_FULL, _RESOLVE or _FORBIDDEN (no set was ever found), _CLOSED, or the signal's reason.
   */
  acquire(options?: AcquireOptions<C>): Promise<Lease<C>>;
  /**
   * Picks, calls `use`, reports the outcome, and repeats elsewhere what is safe to repeat. Rejects as `acquire` does, or
   * with what `use` threw.
   */
  run<T>(use: (handle: C, lease: Lease<C>) => T | Promise<T>, options?: RunOptions): Promise<T>;
  /**
   * Resolves once the first set is known, an empty one included. Rejects at once for what cannot get better by itself
   * (EVENKEEL_FORBIDDEN …), else with EVENKEEL_RESOLVE or _NOT_READY after `startTimeoutMs`; looking goes on.
   */
  ready(options?: { readonly signal?: AbortSignal }): Promise<void>;
  snapshot(): BalancerSnapshot;
  /** May this call be made again, and can we afford it? Adapters that repeat calls themselves ask here. */
  readonly retries: RetryPolicy;
  /** The observer given, joined to `node:diagnostics_channel`. */
  readonly observer: Observer;
  /**
   * No new calls; running ones finish, for at most `pool.drainTimeoutMs` or until `signal` aborts, then they are cut.
   * Resolves when every connection is closed. Idempotent.
   */
  close(options?: { readonly signal?: AbortSignal }): Promise<void>;
}

/**
 * Makes a balancer and starts it: it looks for endpoints and opens connections ahead of the first call.
 * Throws EVENKEEL_OPTION for options that do not fit. Must be closed.
 *
 * @example
 * const balancer = createBalancer({ resolver: staticEndpoints([{ address: '10.0.0.1', port: 80 }]), transport });
 * await balancer.run((connection) => connection.call());
 * await balancer.close();
 */
export function createBalancer<C>(options: BalancerOptions<C>): Balancer<C> {
  return new CorridorBalancer(resolveBalancerOptions(options));
}

class CorridorBalancer<C> implements Balancer<C>, LeaseOwner<C> {
  readonly retries: RetryPolicy;
  readonly observer: Observer;
  readonly #options: ResolvedBalancerOptions<C>;
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #stages: readonly Stage[];
  readonly #pool: Pool<C>;
  readonly #feed: EndpointFeed;
  readonly #room: WaitingRoom<C>;
  readonly #start: StartGate;
  readonly #latency = new LatencyQuantile();
  /** The one request object all picks share. */
  readonly #request: PickRequest<C> = { nowMs: 0, key: undefined, avoid: undefined };
  #picker: Picker<C> | undefined;
  /** What has to be done at the end of this turn. */
  #pending: 'nothing' | 'picker' | 'stages' = 'nothing';
  /** The last set after the stages had no entry, and is authoritative. */
  #empty = false;
  #closing: Promise<void> | undefined;
  /** Aborts when what still runs while closing is cut, whichever `close` asked for it. */
  readonly #cutting = new AbortController();

  constructor(options: ResolvedBalancerOptions<C>) {
    const { clock, rng } = options;
    this.#options = options;
    this.#clock = clock;
    this.#rng = rng;
    this.observer = withDiagnostics(options.observer, options.resolver.name);
    this.retries = new RetryPolicy(options.retry, clock);
    this.#start = new StartGate(clock, options.startTimeoutMs, () => this.#notStartedError());
    this.#room = new WaitingRoom<C>({
      clock,
      limit: options.maxWaiting,
      tryPick: (key, avoid) => this.#pick(key, avoid),
      waitedInVain: (timeoutMs) => this.#notReadyError(timeoutMs),
    });
    this.#stages = options.stages.map((stage) =>
      stage({
        clock,
        rng,
        observer: this.observer,
        invalidate: () => this.#schedule('stages'),
        probe: (endpoint, signal) => this.#probe(endpoint.key, signal),
      }),
    );
    this.#pool = new Pool<C>({
      transport: options.transport,
      clock,
      rng,
      observer: this.observer,
      options: options.pool,
      load: options.load,
      stages: this.#stages,
      changed: () => this.#schedule('picker'),
      troubled: () => this.#feed.refresh(),
    });
    this.#feed = new EndpointFeed(options.resolver, {
      clock,
      rng,
      observer: this.observer,
      endpointsChanged: () => this.#schedule('stages'),
      resolveFailed: (error) => {
        if (!error.permanent || this.#feed.endpoints !== undefined) return;
        this.#start.fail(error);
        this.#room.fail(error);
      },
    });
  }

  pick(options?: PickOptions<C>): Lease<C> | undefined {
    return options === undefined ? this.#pick(undefined, undefined) : this.#pick(options.key, options.avoid);
  }

  async acquire(options: AcquireOptions<C> = {}): Promise<Lease<C>> {
    const { key, avoid, signal, timeoutMs = this.#options.waitTimeoutMs } = options;
    signal?.throwIfAborted();
    const lease = this.#pick(key, avoid);
    if (lease !== undefined) return lease;
    const refusal = this.#refusal();
    if (refusal === undefined) {
      try {
        return await this.#room.wait({ key, avoid, signal, timeoutMs });
      } catch (error) {
        if (error instanceof EvenkeelError) notify(this.observer, 'refused', { error });
        throw error;
      }
    }
    notify(this.observer, 'refused', { error: refusal });
    throw refusal;
  }

  async run<T>(use: (handle: C, lease: Lease<C>) => T | Promise<T>, options: RunOptions = {}): Promise<T> {
    const { signal, key, idempotent = false, classify = classifyError } = options;
    let avoid: Set<Subchannel<C>> | undefined;
    this.retries.started();
    for (let attempt = 1; ; attempt++) {
      const lease = await this.acquire({ key, avoid, signal });
      try {
        const result = await use(lease.handle, lease);
        lease.end(outcomes.success);
        return result;
      } catch (error) {
        const outcome = signal?.aborted ? outcomes.cancelled : classify(error);
        lease.end(outcome);
        const { subchannel, endpoint } = lease;
        const retrying =
          avoid?.has(subchannel) !== true &&
          this.retries.allows({ outcome, idempotent, answered: false, tried: attempt });
        notify(this.observer, 'attemptEnded', { endpoint, outcome, attempt, retrying, error });
        if (!retrying) throw error;
        avoid ??= new Set();
        avoid.add(subchannel);
      }
    }
  }

  ready(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    return this.#start.wait(options.signal);
  }

  snapshot(): BalancerSnapshot {
    const error = this.#feed.error;
    return {
      resolver: this.#feed.name,
      state: this.#state(),
      version: this.#feed.version,
      staleForMs: this.#feed.staleForMs,
      ...(error !== undefined && { resolveError: error.message }),
      waiting: this.#room.size,
      endpoints: snapshotEndpoints(this.#pool, this.#clock.now()),
    };
  }

  close(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = options;
    const closing = this.#closing ?? this.#beginToClose();
    const abort = (): void => this.#cutting.abort();
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, { once: true });
    void closing.then(() => signal?.removeEventListener('abort', abort));
    return closing;
  }

  #beginToClose(): Promise<void> {
    this.#picker = undefined;
    this.#feed.close();
    const closed = closedError();
    this.#room.fail(closed);
    this.#start.fail(closed);
    for (const stage of this.#stages) stage.close?.();
    this.#closing = this.#closePool();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  leaseEnded(
    subchannel: Subchannel<C>,
    startedMs: number,
    outcome: Outcome,
    progressed: boolean,
    latencyMs: number | undefined,
  ): void {
    const nowMs = this.#clock.now();
    const askedMs = latencyMs === undefined ? startedMs : nowMs - latencyMs;
    let judged = outcome;
    if (outcome.kind === 'success') this.#latency.add(nowMs - askedMs);
    else if (outcome.kind === 'cancelled' && !progressed && this.#stalled(nowMs - startedMs)) judged = outcomes.timeout;
    subchannel.end(askedMs, nowMs, judged);
    this.#picker?.ended?.(subchannel);
    if (this.#room.size > 0) this.#room.wake();
  }

  #pick(key: string | undefined, avoid: ReadonlySet<Subchannel<C>> | undefined): Lease<C> | undefined {
    const picker = this.#picker;
    if (picker === undefined) return undefined;
    const request = this.#request;
    const nowMs = this.#clock.now();
    request.nowMs = nowMs;
    request.key = key;
    request.avoid = avoid;
    const subchannel = picker.pick(request);
    // A subchannel that lost its connection in this very turn is still in the picker until the turn ends.
    const connection = subchannel?.connection;
    if (subchannel === undefined || connection === undefined) return undefined;
    subchannel.start(nowMs);
    return new Lease(this, subchannel, connection.handle, nowMs);
  }

  /** A caller's abort tells of the endpoint only if he had waited unusually long for a first byte. */
  #stalled(waitedMs: number): boolean {
    const { stalledAfterMs } = this.#options;
    return waitedMs > stalledAfterMs && waitedMs > 3 * this.#latency.quantile(0.99);
  }

  #schedule(work: 'picker' | 'stages'): void {
    if (this.#closing !== undefined) return;
    const idle = this.#pending === 'nothing';
    if (this.#pending !== 'stages') this.#pending = work;
    if (idle) this.#clock.defer(() => this.#work());
  }

  #work(): void {
    const work = this.#pending;
    this.#pending = 'nothing';
    if (this.#closing !== undefined) return;
    const { endpoints } = this.#feed;
    if (endpoints === undefined) return;
    if (work === 'stages') {
      const set = applyStages(this.#stages, EndpointSet.of(this.#feed.version, endpoints));
      this.#empty = set.size === 0;
      this.#pool.reconcile(set, this.#feed.byKey);
    }
    this.#picker = this.#options.picker(pickSetOf(this.#pool.members), this.#picker, { rng: this.#rng });
    this.#start.open();
    if (this.#empty && !this.#options.waitForEndpoints) this.#room.fail(this.#noEndpointsError());
    else this.#room.wake();
  }

  #state(): BalancerSnapshot['state'] {
    if (this.#closing !== undefined) return 'closed';
    if (this.#picker === undefined) return 'starting';
    if (this.#empty) return 'empty';
    return this.#pool.members.some(({ subchannel, weight }) => weight > 0 && subchannel.state === 'ready')
      ? 'ready'
      : 'not-ready';
  }

  async #probe(key: string, signal: AbortSignal): Promise<void> {
    const subchannel = this.#pool.get(key);
    if (subchannel === undefined) throw new Error(`${key} is not connected to`);
    await subchannel.ping(signal);
  }

  async #closePool(): Promise<void> {
    const timer = this.#clock.timer(() => this.#cutting.abort(), this.#options.pool.drainTimeoutMs);
    try {
      await this.#pool.close(this.#cutting.signal);
    } finally {
      timer.cancel();
    }
  }

  /** Why waiting would be in vain, if it would. */
  #refusal(): EvenkeelError | undefined {
    if (this.#closing !== undefined) return closedError();
    if (this.#empty && !this.#options.waitForEndpoints) return this.#noEndpointsError();
    const { error, endpoints } = this.#feed;
    return endpoints === undefined && error?.permanent ? error : undefined;
  }

  #noEndpointsError(): EvenkeelError {
    const listed = this.#feed.endpoints?.length ?? 0;
    const why = listed === 0 ? 'it has no endpoint' : `none of its ${listed} endpoints is usable`;
    return new EvenkeelError('EVENKEEL_NO_ENDPOINTS', `${this.#feed.name}: ${why}`);
  }

  #notReadyError(waitedMs: number): EvenkeelError {
    const { endpoints, error } = this.#feed;
    if (endpoints === undefined) return error ?? this.#notStartedError(waitedMs);
    if (this.#empty) return this.#noEndpointsError();
    const states = new Map<string, number>();
    let cause: Error | undefined;
    for (const { subchannel } of this.#pool.members) {
      const full = subchannel.state === 'ready' && subchannel.inFlight >= subchannel.capacity;
      const state = full ? 'at capacity' : subchannel.state;
      states.set(state, (states.get(state) ?? 0) + 1);
      cause ??= subchannel.lastError;
    }
    const found = [...states].map(([state, count]) => `${count} ${state}`).join(', ');
    return new EvenkeelError(
      'EVENKEEL_NOT_READY',
      `${this.#feed.name}: no endpoint could take the call within ${waitedMs} ms (${found}${cause ? `; ${cause.message}` : ''})`,
      { cause },
    );
  }

  #notStartedError(waitedMs: number = this.#options.startTimeoutMs): EvenkeelError {
    const { error } = this.#feed;
    if (error !== undefined) return error;
    return new EvenkeelError('EVENKEEL_NOT_READY', `${this.#feed.name}: no answer within ${waitedMs} ms`);
  }
}

function closedError(): EvenkeelError {
  return new EvenkeelError('EVENKEEL_CLOSED', 'the balancer is closed');
}
