import { type LoadReport, type Outcome, outcomes } from '../endpoint/outcome.js';
import type { CostOfCalls } from '../load/call-costs.js';
import { noCell } from '../load/cells.js';
import { inFlightRule } from '../load/in-flight.js';
import { DEFAULT_CHOICES, type Load } from '../load/load.js';
import { type LoadRule, PluggedInRule, RuledLoad } from '../load/load-rule.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import type { Clock } from '../runtime/clock.js';
import type { Tracker } from '../stage/stage.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import type { SubchannelRecording } from './subchannel-recording.js';
import { Trackers } from './trackers.js';
import type { Connection } from './transport.js';

/** A server's `Retry-After` is honored for up to this long, in ms. */
const MAX_PUSHBACK_MS = 60_000;
/**
 * No limit, and a limit that must be read from the connection at each pick. Values for a limit of calls. Both are small integers: comparing
 * them does not touch the heap.
 */
export const UNLIMITED: number = 2 ** 30;
const ASK = -1;

/**
 * The part of a subchannel that calls touch: capacity, counters, load, trackers. It is one object with the rest of the
 * subchannel, and comes first, so that the fields of a pick, a start and an end share cache lines. With thousands of endpoints,
 * most of the cost of a pick is waiting for memory.
 */
export abstract class SubchannelCalls<C> {
  /** Calls begun on the endpoint since it was added. */
  started = 0;
  /** Whether a successful call would change nothing but the load and the counters `started` and `inFlight`. */
  #onlyCounts = false;
  /** When a call last ended other than by a timeout, in whole ms modulo 2^32, and how many had started by then. */
  #lastAnswerMs: number;
  #startedByLastAnswer = 0;
  /** How many calls may run on the connection, or `ASK`. */
  #limit = 0;
  /** Calls running now, on the current connection and on any that is retiring. */
  inFlight = 0;
  /** The rule that computes the endpoint's load; undefined if the load is calls in flight. */
  readonly #rule: LoadRule | undefined;
  /** Computes the cost of a call, as `LoadRule.calls`. */
  readonly #calls: CostOfCalls | undefined;
  /** The array with the numbers of this endpoint's load, and where they begin in it. */
  readonly #numbers: Float64Array;
  readonly #at: number;
  // Every call touches the fields above this line.
  readonly load: Load;
  #connection: Connection<C> | undefined;
  /** Whether the connection reports changes of its capacity. */
  #isWatched = false;
  /** Which round of its probation the endpoint is in; undefined while it is not on probation. */
  #probation: number | undefined;
  /** Whether no tracker of a stage would learn from a successful call. */
  #trackersIgnoreSuccess = false;
  /** How many calls had ended when the stages' trackers last got one. */
  #endedAtLastReport = 0;
  /** How many calls may run while the endpoint is on probation. */
  #probationLimit = 0;
  #probationSinceMs = 0;
  protected readonly trackers: Trackers;
  readonly #clock: Clock;
  readonly #warnings: Warnings;
  /** The subchannel's index in the current picker's set, for pickers that use it; only they read and write it. */
  indexInSet = -1;
  /** The subchannel's number in a recording; only the recording reads and writes it. */
  recordedAs = -1;
  readonly #recording: SubchannelRecording | undefined;
  /** Unsuccessful calls on the endpoint since creation. */
  #unsuccessful = 0;
  /** Failed calls on the endpoint since creation, including those for which no connection could be opened. */
  failed = 0;
  /**
   * The end of the pause that the endpoint requested (`Retry-After`). Until then, on the clock in ms, no response is retried on this
   * endpoint.
   */
  pushedBackUntilMs = 0;
  /** The subchannel's state; only `Subchannel` writes it. */
  state: SubchannelState = 'idle';

  constructor(
    owner: Pick<SubchannelOwner<C>, 'clock' | 'warnings' | 'recording'>,
    load: Load,
    trackers: readonly Tracker[],
  ) {
    this.#clock = owner.clock;
    this.#recording = owner.recording;
    this.#warnings = owner.warnings;
    this.trackers = new Trackers(trackers, owner.warnings);
    this.#lastAnswerMs = owner.clock.now() | 0;
    const isRuled = load instanceof RuledLoad;
    const rule = isRuled ? load.rule : new PluggedInRule(load);
    const { numbers, at } = isRuled ? load : noCell;
    this.#rule = rule === inFlightRule ? undefined : rule;
    this.#calls = isRuled ? load.rule.calls : undefined;
    this.#numbers = numbers;
    this.#at = at;
    if (isRuled) load.follow(this);
    this.load = load;
  }

  /** A call on the subchannel ended, and all counters are updated. */
  protected abstract callEnded(): void;

  /** The connection can carry more calls than before. */
  protected abstract capacityGained(): void;

  /** The connection that new calls use; present only in `ready` and `draining`. */
  get connection(): Connection<C> | undefined {
    return this.#connection;
  }

  set connection(connection: Connection<C> | undefined) {
    this.#connection = connection;
    this.#isWatched = connection?.watchCapacity !== undefined;
    try {
      this.#updateLimit();
      connection?.watchCapacity?.(() => {
        if (this.#connection !== connection) return;
        const before = this.#limit;
        this.#updateLimit();
        if (this.#limit > before) this.capacityGained();
      });
    } catch (error) {
      this.#isWatched = false;
      this.#updateLimit();
      this.#warnings.warn('a connection threw in watchCapacity()', error);
    }
  }

  /** How many concurrent calls the subchannel's connection can carry now; 0 without a connection. */
  get capacity(): number {
    const connection = this.#connection;
    if (connection === undefined) return 0;
    return this.#probation === undefined ? connection.capacity : Math.min(connection.capacity, this.#probationLimit);
  }

  /** Whether the endpoint can take one more call now. Pickers use this instead of a capacity, because a boolean is never boxed. */
  get hasRoom(): boolean {
    const limit = this.#limit;
    return limit === ASK ? this.inFlight < this.capacity : this.inFlight < limit;
  }

  /** Successful calls since creation. Computed from the other counters, so that a success need not count. */
  protected get succeeded(): number {
    return this.started - this.inFlight - this.#unsuccessful;
  }

  /** The cost of one more call on the endpoint now, according to the load. */
  cost(nowMs: number): number {
    const calls = this.#calls;
    if (calls !== undefined) return calls.cost(this.#numbers, this.#at, this.inFlight, nowMs);
    const rule = this.#rule;
    return rule === undefined ? this.inFlight + 1 : rule.value(this.#numbers, this.#at, this.inFlight, nowMs);
  }

  /** What each further call adds to the endpoint's cost; 0 = cost / (calls in flight + 1). */
  get unit(): number {
    const rule = this.#rule;
    return rule?.unit === undefined ? 0 : rule.unit(this.#numbers, this.#at);
  }

  /** How many endpoints the subchannel's load wants compared for a call. */
  get choices(): number {
    return this.#rule?.choices ?? DEFAULT_CHOICES;
  }

  /** A load report of the endpoint arrived with the response to a running call. Never throws. */
  reported(report: LoadReport, nowMs: number): void {
    const rule = this.#rule;
    if (rule?.reported === undefined) return;
    this.#recording?.reported(this, report, nowMs);
    try {
      rule.reported(this.#numbers, this.#at, report, this.inFlight, nowMs);
    } catch (error) {
      this.#warnings.warn('a load threw', error);
    }
  }

  /**
   * Puts the endpoint on probation: it may get one call more than are running now, then one at a time. A further round allows one call more
   * while calls of the previous round are still running. `undefined` ends the probation.
   */
  setProbation(round: number | undefined): void {
    if (round === this.#probation) return;
    this.#probation = round;
    this.#probationSinceMs = this.#clock.now();
    this.#probationLimit = this.inFlight + 1;
    this.#onlyCounts = false;
    this.#updateLimit();
  }

  /** A call starts on the endpoint. The caller must then call `end` exactly once. */
  start(nowMs: number): void {
    this.inFlight++;
    this.started++;
    const rule = this.#rule;
    if (rule?.start === undefined) return;
    try {
      rule.start(nowMs);
    } catch (error) {
      this.#warnings.warn('a load threw', error);
    }
  }

  /**
   * A call that started at `startedMs` ended. Never throws.
   * @param measuredFromMs When the measured part of the call began: `startedMs`, unless less than the whole call is measured. No default,
   * because that would put the number on the heap for every call.
   * @param isMeasured Whether the duration is meaningful; false if our own event loop was blocked.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome, measuredFromMs: number, isMeasured = true): void {
    this.inFlight--;
    if (this.#onlyCounts && outcome.kind === 'success') {
      const rule = this.#rule;
      if (rule !== undefined) this.#tellEnd(rule, measuredFromMs, nowMs, outcome, isMeasured);
      this.#answered(nowMs | 0);
    } else this.#ended(startedMs, nowMs, outcome, measuredFromMs, isMeasured);
  }

  /** A running call has shown that the endpoint works. Stages count that as a success, in addition to the end of the call. */
  confirm(startedMs: number): void {
    if (this.#onlyCounts || this.state === 'closed') return;
    const nowMs = this.#clock.now();
    this.#track(outcomes.success, nowMs - startedMs, nowMs | 0);
  }

  #tellEnd(rule: LoadRule, measuredFromMs: number, nowMs: number, outcome: Outcome, isMeasured: boolean): void {
    try {
      if (isMeasured) rule.end(this.#numbers, this.#at, measuredFromMs, nowMs, outcome);
      else rule.endUnmeasured?.(measuredFromMs, nowMs);
    } catch (error) {
      this.#warnings.warn('a load threw', error);
    }
  }

  #ended(startedMs: number, nowMs: number, outcome: Outcome, measuredFromMs: number, isMeasured: boolean): void {
    if (outcome.kind !== 'success') this.#unsuccessful++;
    // Capacity freed by a call that started before the probation is not for a call on probation.
    if (this.#probation !== undefined && startedMs < this.#probationSinceMs) {
      this.#probationLimit--;
      this.#updateLimit();
    }
    if (outcome.kind === 'failure' || outcome.cause === 'connect') this.failed++;
    const { retryAfterMs } = outcome;
    if (retryAfterMs !== undefined) {
      this.pushedBackUntilMs = Math.max(this.pushedBackUntilMs, nowMs + Math.min(retryAfterMs, MAX_PUSHBACK_MS));
    }
    if (this.#rule !== undefined) this.#tellEnd(this.#rule, measuredFromMs, nowMs, outcome, isMeasured);
    // Calls that were cut end after the stages have forgotten the endpoint. Stages need the whole length of a stream, not its latency.
    if (this.state !== 'closed') this.#track(outcome, nowMs - startedMs, nowMs | 0);
    this.callEnded();
  }

  #track(outcome: Outcome, latencyMs: number, atMs: number): void {
    if (outcome.kind !== 'success' || !this.#trackersIgnoreSuccess) {
      const silentMs = (atMs - this.#lastAnswerMs) | 0;
      const ended = this.started - this.inFlight;
      const uncounted = ended - this.#endedAtLastReport - 1;
      this.#endedAtLastReport = ended;
      this.trackers.completed(outcome, latencyMs, silentMs, this.started - this.#startedByLastAnswer, uncounted);
      this.#trackersIgnoreSuccess = this.trackers.ignoreSuccess;
      this.#onlyCounts = this.#trackersIgnoreSuccess && this.#probation === undefined && this.state === 'ready';
    }
    if (outcome.cause !== 'timeout') this.#answered(atMs);
  }

  #answered(atMs: number): void {
    this.#lastAnswerMs = atMs;
    this.#startedByLastAnswer = this.started;
  }

  /** After this, a successful call may mean something to a tracker again. */
  protected forgetWhatTrackersIgnore(): void {
    this.#trackersIgnoreSuccess = false;
    this.#onlyCounts = false;
  }

  #updateLimit(): void {
    const isPolled = this.#connection !== undefined && !this.#isWatched;
    this.#limit = isPolled ? ASK : Math.min(this.capacity, UNLIMITED);
    this.#recording?.changed(this);
  }
}
