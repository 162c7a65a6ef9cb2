import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Outcome } from '../endpoint/outcome.js';
import { asError } from '../errors.js';
import type { Load } from '../load/load.js';
import { notify, type Observer, type SubchannelState } from '../observe/observer.js';
import { backoffDelay } from '../runtime/backoff.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { jittered, type Rng } from '../runtime/rng.js';
import type { Tracker } from '../stage/stage.js';
import { connectWithin, cut } from './connect.js';
import type { ConnectGate } from './connect-gate.js';
import type { ResolvedPoolOptions } from './pool-options.js';
import type { Connection, Transport } from './transport.js';

export type { SubchannelState };

/** What a subchannel needs from the pool that owns it. */
export interface SubchannelOwner<C> {
  readonly transport: Transport<C>;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly observer: Observer;
  readonly gate: ConnectGate;
  readonly options: ResolvedPoolOptions;
  /** It became ready or stopped being so. */
  readinessChanged(subchannel: Subchannel<C>): void;
  /** A connection could not be opened or was lost: the resolver may want to look. */
  troubled(): void;
  /** Takes over a connection that gets no new call: running ones finish, within the drain time-out, or are cut at once. */
  retire(connection: Connection<C>, how: 'finish' | 'cut'): void;
  /** It reached `closed` and will never be used again. */
  subchannelClosed(subchannel: Subchannel<C>): void;
}

/** A connection that ended sooner than this was of no use: reconnecting at once would be a hot loop. In ms. */
const MIN_USEFUL_LIFE_MS = 1_000;
/** Ages are spread by this much either way, so that the connections of a rollout do not all end together. */
const AGE_JITTER_RATIO = 0.5;

/**
 * Our slot for one endpoint: its connection, state, counters and load.
 *
 * ```
 * idle → connecting ⇄ backoff      any of these → draining → closed
 *            ⇅                                      ↓ (came back, T2)
 *          ready                                 ready or connecting
 * ```
 * It keeps a connection open from `open` to `drain`: one that is lost is opened again.
 */
export class Subchannel<C> {
  // What a pick, a start and an end touch comes first, so that it shares cache lines: with thousands of endpoints the
  // memory a pick waits for is what it costs.

  /** Present only in `ready` and `draining`; the one new calls use. */
  connection: Connection<C> | undefined;
  readonly load: Load;
  /** Calls running now, on the present connection and on any that is being retired. */
  inFlight = 0;
  /** The round of its trial, while it is on trial. */
  #trial: number | undefined;
  /** Calls begun since the start. */
  started = 0;
  readonly #trackers: readonly Tracker[];
  /** While draining: whether to close as soon as no call runs. */
  #closeWhenIdle = false;
  /** Its index in the present picker's set, for pickers that want it; only they read and write it. */
  slot = -1;

  /** The latest data of this endpoint; its key never changes. */
  endpoint: Endpoint;
  /** Calls that ended as a failure since the start. */
  failed = 0;
  /** What ended the last connection or attempt, until the next success. */
  lastError: Error | undefined;
  readonly #owner: SubchannelOwner<C>;
  #state: SubchannelState = 'idle';
  #connectedAtMs = 0;
  /** Failed connections since the last one that was of use; the exponent of the backoff. */
  #failures = 0;
  /** Aborts the attempt under way (first connection or replacement). */
  #attempt: AbortController | undefined;
  #backoffTimer: Timer | undefined;
  #drainTimer: Timer | undefined;
  #ageTimer: Timer | undefined;
  /** How many calls may run while on trial. */
  #trialLimit = 0;
  #trialSinceMs = 0;

  constructor(endpoint: Endpoint, owner: SubchannelOwner<C>, load: Load, trackers: readonly Tracker[]) {
    this.endpoint = endpoint;
    this.load = load;
    this.#owner = owner;
    this.#trackers = trackers;
  }

  get state(): SubchannelState {
    return this.#state;
  }

  /** How many calls it can carry at once, now; 0 without a connection. */
  get capacity(): number {
    const connection = this.connection;
    if (connection === undefined) return 0;
    return this.#trial === undefined ? connection.capacity : Math.min(connection.capacity, this.#trialLimit);
  }

  /**
   * Puts it on trial: one more call than run now, then one at a time. Another round lets one more try while the calls
   * of the round before still run. `undefined` ends the trial.
   */
  setTrial(round: number | undefined): void {
    if (round === this.#trial) return;
    this.#trial = round;
    this.#trialSinceMs = this.#owner.clock.now();
    this.#trialLimit = this.inFlight + 1;
  }

  /** A call begins. The caller then owes exactly one `end`. */
  start(nowMs: number): void {
    this.inFlight++;
    this.started++;
    this.load.start(nowMs);
  }

  /** A call that began at `startedMs` ended. */
  end(startedMs: number, nowMs: number, outcome: Outcome): void {
    this.inFlight--;
    // The room of a call from before the trial is not for another one on trial.
    if (this.#trial !== undefined && startedMs < this.#trialSinceMs) this.#trialLimit--;
    if (outcome.kind === 'failure') this.failed++;
    this.load.end(startedMs, nowMs, outcome);
    const trackers = this.#trackers;
    for (let index = 0; index < trackers.length; index++) {
      (trackers[index] as Tracker).completed?.(outcome, nowMs - startedMs);
    }
    if (this.#closeWhenIdle && this.inFlight === 0 && this.#state === 'draining') this.#finish('finish');
  }

  /** Begins to connect; only the pool calls this, once. */
  open(): void {
    this.#connect();
  }

  /**
   * The endpoint left the set (T1): no new call from now on, running ones finish. With `gone` (its pod is terminating)
   * it closes as soon as no call runs; otherwise it stays ready to come back until the drain time-out (T2).
   */
  drain(gone: boolean): void {
    if (this.#state === 'closed') return;
    if (gone) this.#closeWhenIdle = true;
    if (this.#state !== 'draining') {
      this.#stopAttempt();
      this.#transition('draining');
      this.#drainTimer = this.#owner.clock.timer(() => this.#finish('cut'), this.#owner.options.drainTimeoutMs);
    }
    // Without a connection there is nothing that could be taken up again.
    if (this.inFlight === 0 && (this.#closeWhenIdle || this.connection === undefined)) this.#finish('finish');
  }

  /** The endpoint is back in the set before it was closed: takes up its connection, load and trackers (T2). */
  revive(): void {
    if (this.#state !== 'draining') return;
    this.#closeWhenIdle = false;
    this.#drainTimer?.cancel();
    if (this.connection === undefined) this.#connect();
    else {
      this.#transition('ready');
      this.#scheduleReplacement();
    }
  }

  /** Ends at once; what runs is cut. */
  destroy(): void {
    this.#finish('cut');
  }

  /** Is the other side alive? Rejects when there is no connection or it cannot tell. */
  async ping(signal: AbortSignal): Promise<void> {
    const connection = this.connection;
    if (connection === undefined) throw this.lastError ?? new Error(`${this.endpoint.key} has no connection`);
    if (connection.ping === undefined) throw new Error('this transport has no ping');
    await connection.ping(signal);
  }

  #connect(): void {
    this.#transition('connecting');
    this.#attemptConnection(
      (connection) => {
        this.lastError = undefined;
        this.#adopt(connection);
        this.#transition('ready');
        for (const tracker of this.#trackers) tracker.connected?.();
      },
      (error) => this.#lost(error),
    );
  }

  #attemptConnection(opened: (connection: Connection<C>) => void, failed: (error: Error) => void): void {
    const { gate, transport, clock, options } = this.#owner;
    const attempt = new AbortController();
    this.#attempt = attempt;
    const leaveQueue = gate.enter(async () => {
      if (attempt.signal.aborted) return;
      try {
        const connection = await connectWithin(
          transport,
          this.endpoint,
          options.connectTimeoutMs,
          clock,
          attempt.signal,
        );
        if (this.#attempt === attempt) {
          this.#attempt = undefined;
          opened(connection);
        } else void connection.close(cut);
      } catch (error) {
        if (this.#attempt !== attempt) return;
        this.#attempt = undefined;
        failed(asError(error));
      }
    });
    attempt.signal.addEventListener('abort', leaveQueue, { once: true });
  }

  #stopAttempt(): void {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    attempt?.abort();
    this.#backoffTimer?.cancel();
    this.#ageTimer?.cancel();
  }

  #adopt(connection: Connection<C>): void {
    this.connection = connection;
    this.#connectedAtMs = this.#owner.clock.now();
    this.#scheduleReplacement();
    void connection.closed.then((error) => this.#connectionClosed(connection, error));
    void connection.leaving?.then(() => this.#connectionLeaving(connection));
  }

  #connectionClosed(connection: Connection<C>, error: Error | undefined): void {
    if (this.connection !== connection) return; // was retired
    this.connection = undefined;
    if (this.#state === 'draining') {
      this.#finish('finish');
      return;
    }
    this.#stopAttempt();
    const livedMs = this.#owner.clock.now() - this.#connectedAtMs;
    if (livedMs >= Math.max(MIN_USEFUL_LIFE_MS, this.#owner.options.reconnect.maxMs)) this.#failures = 0;
    if (error === undefined && livedMs >= MIN_USEFUL_LIFE_MS) {
      for (const tracker of this.#trackers) tracker.disconnected?.(undefined);
      this.#connect();
    } else this.#lost(error);
  }

  /** No connection, for a bad reason: pause, then try again. */
  #lost(error: Error | undefined): void {
    const { clock, rng, options } = this.#owner;
    this.#failures++;
    this.lastError = error;
    for (const tracker of this.#trackers) tracker.disconnected?.(error);
    this.#transition('backoff', error);
    this.#backoffTimer = clock.timer(() => this.#connect(), backoffDelay(options.reconnect, this.#failures, rng));
    this.#owner.troubled();
  }

  /** The other side wants this connection to end: calls on it finish, new ones need another. */
  #connectionLeaving(connection: Connection<C>): void {
    if (this.connection !== connection) return;
    this.connection = undefined;
    this.#owner.retire(connection, 'finish');
    if (this.#state === 'draining') {
      if (this.inFlight === 0) this.#finish('finish');
      return;
    }
    this.#stopAttempt();
    const livedMs = this.#owner.clock.now() - this.#connectedAtMs;
    if (livedMs >= MIN_USEFUL_LIFE_MS) this.#connect();
    else this.#lost(undefined);
  }

  #scheduleReplacement(): void {
    const { clock, rng, options } = this.#owner;
    this.#ageTimer?.cancel();
    const ownAgeMs = this.endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY;
    const ageMs = Math.min(options.maxConnectionAgeMs, ownAgeMs);
    if (ageMs === Number.POSITIVE_INFINITY) return;
    this.#ageTimer = clock.timer(() => this.#replace(), jittered(rng, ageMs, AGE_JITTER_RATIO));
  }

  /** Maximum age: the replacement is opened before the old connection is given up. */
  #replace(): void {
    this.#attemptConnection(
      (connection) => {
        const old = this.connection;
        this.#adopt(connection);
        if (old !== undefined) this.#owner.retire(old, 'finish');
      },
      // The old one still works: keep it, and try again after another age.
      () => this.#scheduleReplacement(),
    );
  }

  #finish(how: 'finish' | 'cut'): void {
    if (this.#state === 'closed') return;
    this.#stopAttempt();
    this.#drainTimer?.cancel();
    const connection = this.connection;
    this.connection = undefined;
    this.#transition('closed');
    for (const tracker of this.#trackers) tracker.closed?.();
    if (connection !== undefined) this.#owner.retire(connection, how);
    this.#owner.subchannelClosed(this);
  }

  /** The one gate all state changes pass. */
  #transition(to: SubchannelState, error?: Error): void {
    const from = this.#state;
    if (from === to) return;
    this.#state = to;
    const { observer } = this.#owner;
    if (observer.subchannelChanged !== undefined) {
      notify(observer, 'subchannelChanged', { endpoint: this.endpoint, from, to, ...(error && { error }) });
    }
    if (from === 'ready' || to === 'ready') this.#owner.readinessChanged(this);
  }
}
