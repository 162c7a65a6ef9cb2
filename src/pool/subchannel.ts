import type { Endpoint } from '../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { asError, EvenkeelError } from '../errors.js';
import type { Load } from '../load/load.js';
import { notify, observes, type SubchannelState } from '../observe/observer.js';
import type { Tracker } from '../stage/stage.js';
import { ConnectAttempt } from './connect-attempt.js';
import { DrainLimits } from './drain.js';
import { Reconnect } from './reconnect.js';
import { Recycle } from './recycle.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import { Trackers } from './trackers.js';
import type { Connection } from './transport.js';

export type { SubchannelOwner, SubchannelState };

/** A server's `Retry-After` is believed up to this long, in ms. */
const MAX_PUSHBACK_MS = 60_000;

/**
 * Our slot for one endpoint: its connection, state, counters and load.
 *
 * ```
 * idle → connecting ⇄ backoff      any of these → draining → closed
 *            ⇅                                      ↓ (came back, T2)
 *          ready                                 ready or connecting
 * ```
 * It keeps a connection open from `open` to `drain`: one that is lost is opened again. `closed` is final.
 *
 * Observers and trackers are called in the middle of all this and may call back in, even close the whole balancer.
 * So everything is in place before they hear of it, and what follows asks whether it still holds.
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
  readonly #trackers: Trackers;
  #state: SubchannelState = 'idle';
  /** Whether no tracker would learn from a success: with thousands of endpoints, looking at each of them costs most of a call. */
  #trackersIgnoreSuccess = false;
  /** When a call last ended otherwise than by a time-out, in whole ms modulo 2^32, and how many had begun by then. */
  #heardAtMs: number;
  #startedWhenHeard = 0;
  /** While draining: whether to close as soon as no call runs. */
  #closeWhenIdle = false;
  /** Its index in the present picker's set, for pickers that want it; only they read and write it. */
  slot = -1;

  /** The latest data of this endpoint; its key never changes. */
  endpoint: Endpoint;
  /** Calls that failed since the start, also because no connection could be opened for them. */
  failed = 0;
  /** Until when it asked to be left alone. What is repeated for the sake of a better answer does not go there before. */
  pushedBackUntilMs = 0;
  /** What ended the last connection or attempt, until the next success. */
  lastError: Error | undefined;
  readonly #owner: SubchannelOwner<C>;
  readonly #reconnect: Reconnect;
  readonly #recycle: Recycle;
  readonly #drainLimits: DrainLimits;
  /** The attempt under way (first connection or replacement). */
  #attempt: ConnectAttempt<C> | undefined;
  /** How many calls may run while on trial. */
  #trialLimit = 0;
  #trialSinceMs = 0;

  constructor(endpoint: Endpoint, owner: SubchannelOwner<C>, load: Load, trackers: readonly Tracker[]) {
    this.endpoint = endpoint;
    this.load = load;
    this.#owner = owner;
    this.#heardAtMs = owner.clock.now() | 0;
    this.#trackers = new Trackers(trackers, owner.warnings);
    this.#reconnect = new Reconnect(owner, () => this.#connect());
    this.#recycle = new Recycle(owner, () => this.#replace());
    this.#drainLimits = new DrainLimits(
      owner,
      () => {
        this.#closeWhenIdle = true;
        this.#finishIfDone();
      },
      () => this.#finish('cut'),
    );
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

  /** Whether it can take one more call, now. What pickers ask: a truth value is never boxed, a capacity may be. */
  get hasRoom(): boolean {
    const { connection, inFlight } = this;
    if (connection === undefined || inFlight >= connection.capacity) return false;
    return this.#trial === undefined || inFlight < this.#trialLimit;
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
    try {
      this.load.start(nowMs);
    } catch (error) {
      this.#owner.warnings.warn('a load threw', error);
    }
  }

  /**
   * A call that began at `startedMs` ended. Never throws.
   * @param askedMs When the endpoint was asked: `startedMs`, unless what is to be measured is less than the whole call. Has
   * no default, since one would put the number on the heap for every call.
   * @param isMeasured Whether the time it took says anything of the endpoint; false if our own event loop stood still.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome, askedMs: number, isMeasured = true): void {
    this.inFlight--;
    // The room of a call from before the trial is not for another one on trial.
    if (this.#trial !== undefined && startedMs < this.#trialSinceMs) this.#trialLimit--;
    if (outcome.kind === 'failure' || outcome.cause === 'connect') {
      this.failed++;
      const { retryAfterMs } = outcome;
      if (retryAfterMs !== undefined) this.pushedBackUntilMs = nowMs + Math.min(retryAfterMs, MAX_PUSHBACK_MS);
    }
    try {
      this.load.end(askedMs, nowMs, isMeasured ? outcome : outcomes.notStarted);
    } catch (error) {
      this.#owner.warnings.warn('a load threw', error);
    }
    // Stages have forgotten an endpoint that is closed; calls that were cut end after that.
    // They reckon from it when the call began, so a stream's is its whole length.
    if (this.#state !== 'closed') this.#track(outcome, nowMs - startedMs, nowMs | 0);
    this.#finishIfDone();
  }

  #track(outcome: Outcome, latencyMs: number, heardAtMs: number): void {
    if (outcome.kind !== 'success' || !this.#trackersIgnoreSuccess) {
      const silentMs = (heardAtMs - this.#heardAtMs) | 0;
      this.#trackers.completed(outcome, latencyMs, silentMs, this.started - this.#startedWhenHeard);
      this.#trackersIgnoreSuccess = this.#trackers.ignoreSuccess;
    }
    if (outcome.cause === 'timeout') return;
    this.#heardAtMs = heardAtMs;
    this.#startedWhenHeard = this.started;
  }

  /** Begins to connect; only the pool calls this, once. */
  open(): void {
    this.#connect();
  }

  /**
   * The endpoint left the set (T1): no new call from now on, running ones finish. With `gone` (its pod is terminating)
   * it closes as soon as no call runs; otherwise it stays ready to come back (T2), with its connection if it has one.
   */
  drain(gone: boolean): void {
    if (gone) this.#closeWhenIdle = true;
    if (this.#state !== 'draining') {
      this.#stopAttempt();
      if (!this.#transition('draining')) return;
      this.#drainLimits.start();
    }
    this.#finishIfDone();
  }

  /** The endpoint is back in the set before it was closed: takes up its connection, load and trackers (T2). */
  revive(): void {
    if (this.#state !== 'draining') return;
    this.#closeWhenIdle = false;
    this.#drainLimits.stop();
    if (this.connection === undefined) this.#connect();
    else if (this.#transition('ready')) this.#recycle.resume();
  }

  /** Ends at once; what runs is cut. */
  destroy(): void {
    this.#finish('cut');
  }

  /** Is the other side alive? Rejects when there is no connection or it cannot tell. */
  async ping(signal: AbortSignal): Promise<void> {
    const connection = this.connection;
    if (connection === undefined) throw this.lastError ?? new Error(`${this.endpoint.key} has no connection`);
    if (connection.ping === undefined) throw new EvenkeelError('EVENKEEL_OPTION', 'this transport has no ping');
    await connection.ping(signal);
    this.#trackersIgnoreSuccess = false;
    this.#trackers.probed();
  }

  #connect(): void {
    if (!this.#transition('connecting')) return;
    this.#attemptConnection(
      this.#reconnect.hasFailed,
      (connection) => {
        this.lastError = undefined;
        this.#adopt(connection);
        if (!this.#transition('ready')) return;
        this.#trackersIgnoreSuccess = false;
        this.#trackers.connected();
      },
      (error) => this.#lost(error, error),
    );
  }

  #attemptConnection(
    again: boolean,
    opened: (connection: Connection<C>) => void,
    failed: (error: Error) => void,
  ): void {
    const { gate, transport, clock, options } = this.#owner;
    this.#stopAttempt();
    this.#attempt = new ConnectAttempt({
      transport,
      endpoint: this.endpoint,
      timeoutMs: options.connectTimeoutMs,
      clock,
      gate,
      again,
      opened: (connection) => {
        this.#attempt = undefined;
        opened(connection);
      },
      failed: (error) => {
        this.#attempt = undefined;
        failed(error);
      },
      discard: (connection) => this.#owner.retire(connection, 'cut'),
    });
  }

  #stopAttempt(): void {
    this.#attempt?.callOff();
    this.#attempt = undefined;
    this.#reconnect.stop();
    this.#recycle.stop();
  }

  #adopt(connection: Connection<C>): void {
    this.connection = connection;
    this.#reconnect.connected();
    this.#recycle.renew(this.endpoint);
    // Both promises must not reject, but may do so all the same: that is an end like any other.
    const ended = (error: unknown): void => {
      if (this.connection === connection) this.#disconnected(error === undefined ? undefined : asError(error));
    };
    const leaving = (): void => {
      if (this.connection !== connection) return;
      this.#owner.retire(connection, 'finish');
      this.#disconnected(undefined);
    };
    connection.closed.then(ended, ended);
    connection.leaving?.then(leaving, leaving);
  }

  /** The connection takes no more calls: it closed, or the other side wants it to end and its calls finish elsewhere. */
  #disconnected(error: Error | undefined): void {
    this.connection = undefined;
    this.#trackersIgnoreSuccess = false;
    const { livedMs, wasUseful } = this.#reconnect.ended();
    if (this.#state === 'draining') {
      this.#trackers.disconnected(error);
      this.#finishIfDone();
      return;
    }
    this.#stopAttempt();
    if (error === undefined && wasUseful) {
      this.#trackers.disconnected(undefined);
      this.#connect();
    } else this.#lost(error, error ?? new Error(`it ended the connection after ${Math.round(livedMs)} ms`));
  }

  /** No connection, for a bad reason: pause, then try again. `reason` is for people, also where the end was clean. */
  #lost(error: Error | undefined, reason: Error): void {
    this.#reconnect.failed();
    this.lastError = reason;
    this.#trackersIgnoreSuccess = false;
    this.#trackers.disconnected(error);
    if (!this.#transition('backoff', reason)) return;
    this.#reconnect.pause();
    this.#owner.troubled();
  }

  /** Maximum age: the replacement is opened before the old connection is given up. */
  #replace(): void {
    this.#attemptConnection(
      true, // not urgent: others go first
      (connection) => {
        const old = this.connection;
        this.#adopt(connection);
        if (old !== undefined) this.#owner.retire(old, 'finish');
      },
      // The old one still works: keep it, and try again after another age.
      () => this.#recycle.renew(this.endpoint),
    );
  }

  #finishIfDone(): void {
    if (this.#closeWhenIdle && this.inFlight === 0 && this.#state === 'draining') this.#finish('finish');
  }

  #finish(how: 'finish' | 'cut'): void {
    if (this.#state === 'closed') return;
    this.#stopAttempt();
    this.#drainLimits.stop();
    const connection = this.connection;
    this.connection = undefined;
    this.#transition('closed');
    this.#trackers.closed();
    if (connection !== undefined) this.#owner.retire(connection, how);
    this.#owner.subchannelClosed(this);
  }

  /** The one gate all state changes pass. False if it is not in `to` afterwards: it is closed, or an observer saw to that. */
  #transition(to: SubchannelState, error?: Error): boolean {
    const from = this.#state;
    if (from !== to && from !== 'closed') {
      this.#state = to;
      if (from === 'ready' || to === 'ready') this.#owner.readinessChanged();
      const { observer } = this.#owner;
      if (observes(observer, 'subchannelChanged')) {
        notify(observer, 'subchannelChanged', { endpoint: this.endpoint, from, to, ...(error && { error }) });
      }
    }
    return this.#state === to;
  }
}
