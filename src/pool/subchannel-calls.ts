import { type LoadReport, type Outcome, outcomes } from '../endpoint/outcome.js';
import type { CostOfCalls } from '../load/call-costs.js';
import { noCell } from '../load/cells.js';
import { inFlightRule } from '../load/in-flight.js';
import { DEFAULT_CHOICES, type Load } from '../load/load.js';
import { type LoadRule, PluggedInRule, RuledLoad } from '../load/load-rule.js';
import type { SubchannelState } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import type { Clock } from '../runtime/clock.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import type { Tracker } from '../stage/stage.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import { Trackers } from './trackers.js';
import type { Connection } from './transport.js';

/** A server's `Retry-After` is honored for up to this long, in ms. */
const MAX_PUSHBACK_MS = 60_000;
/**
 * Values for a subchannel's limit of calls: no limit, and a limit that must be read from the connection at each pick. Both are small
 * integers, which V8 does not put on the heap.
 */
const UNLIMITED = 2 ** 30;
const POLLED = -1;

/**
 * The part of a subchannel that calls touch: capacity, counters, load and trackers. It shares an object with the rest of the subchannel and
 * comes first in it, so that the fields of a pick, a start and an end share cache lines. With thousands of endpoints, most of the cost of a
 * pick is waiting for memory. For that reason alone it is a base class: as an object of its own behind the subchannel, a call took 1.7 times
 * the CPU at 10,000 endpoints (1,246 ns to 732, the shortest of 8 runs each), and about as much as now at 1,000.
 */
export abstract class SubchannelCalls<C> {
  /** Calls begun on the endpoint since it was added. */
  started = 0;
  /**
   * Whether a successful call would change only the load and the counters `started` and `inFlight`, so that its end can take a short way.
   */
  #skipsTrackers = false;
  /** When a call last ended with anything but a timeout, in whole ms modulo 2^32, and how many calls had started by then. */
  #lastAnswerMs: number;
  #startedByLastAnswer = 0;
  /** How many calls may run on the connection; `POLLED` = this must be read from the connection. */
  #limit = 0;
  /** How many calls run now, on the current connection and on those that are finishing. */
  inFlight = 0;
  /** The rule that computes the endpoint's load; undefined if the load is the number of calls in flight. */
  readonly #rule: LoadRule | undefined;
  /** Computes the cost of a call for loads that count calls, as `LoadRule.calls`. */
  readonly #calls: CostOfCalls | undefined;
  /** The array with the numbers of this endpoint's load, and the index at which they begin. */
  readonly #numbers: Float64Array;
  readonly #at: number;
  // Every call touches the fields above; the following ones are needed less often.
  readonly load: Load;
  #connection: Connection<C> | undefined;
  /** Whether the connection reports changes of its capacity. */
  #isWatched = false;
  /** In which round of its probation the endpoint is; undefined while it is not on probation. */
  #probation: number | undefined;
  /** Whether no stage's tracker would learn anything from a successful call. */
  #trackersIgnoreSuccess = false;
  /** How many calls had ended when the stages' trackers were last notified of one. */
  #endedAtLastReport = 0;
  /** How many calls may run while the endpoint is on probation. */
  #probationLimit = 0;
  #probationSinceMs = 0;
  protected readonly trackers: Trackers;
  readonly #clock: Clock;
  readonly #warnings: Warnings;
  /** The subchannel's index in the current picker's set, for pickers that use it; only they read and write it. */
  indexInSet = -1;
  /** How many calls on the endpoint were not successful since the subchannel was created. */
  #unsuccessful = 0;
  /** How many calls on the endpoint failed since the subchannel was created, including those for which no connection could be opened. */
  failed = 0;
  /**
   * Until when the endpoint asked clients to pause (`Retry-After`), in ms on the balancer's clock. Until then, no response is given up to
   * retry the call on this endpoint.
   */
  pushedBackUntilMs = 0;
  /** The subchannel's state; only `Subchannel` writes it. */
  state: SubchannelState = 'idle';

  constructor(owner: Pick<SubchannelOwner<C>, 'clock' | 'warnings'>, load: Load, trackers: readonly Tracker[]) {
    this.#clock = owner.clock;
    this.#warnings = owner.warnings;
    this.trackers = new Trackers(trackers);
    this.#lastAnswerMs = owner.clock.now() | 0;
    const isRuled = load instanceof RuledLoad;
    const rule = isRuled ? load.rule : new PluggedInRule(load, owner.warnings);
    const { numbers, at } = isRuled ? load : noCell;
    this.#rule = rule === inFlightRule ? undefined : rule;
    this.#calls = isRuled ? load.rule.calls : undefined;
    this.#numbers = numbers;
    this.#at = at;
    if (isRuled) load.follow(this);
    this.load = load;
  }

  /** Called when a call on the subchannel has ended and all counters are updated. */
  protected abstract callEnded(): void;

  /** Called when the connection can carry more calls than before. */
  protected abstract capacityGained(): void;

  /** The connection that new calls use. Undefined in all states but `ready` and `draining`. */
  get connection(): Connection<C> | undefined {
    return this.#connection;
  }

  set connection(connection: Connection<C> | undefined) {
    this.#connection = connection;
    this.#isWatched = connection?.watchCapacity !== undefined;
    try {
      this.#updateLimit();
      const watched: unknown = connection?.watchCapacity?.(() => {
        if (this.#connection !== connection) return;
        const before = this.#limit;
        this.#updateLimit();
        if (this.#limit > before) this.capacityGained();
      });
      ignoreRejection(watched);
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

  /**
   * Whether the endpoint can take one more call now. Pickers read this and not a capacity, because V8 never puts a boolean on the heap.
   */
  get hasRoom(): boolean {
    const limit = this.#limit;
    return limit === POLLED ? this.inFlight < this.capacity : this.inFlight < limit;
  }

  /** How many calls on the endpoint succeeded. Computed from other counters, so that a success need not be counted. */
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

  /** How many endpoints a picker should compare for a call, according to the subchannel's load. */
  get choices(): number {
    return this.#rule?.choices ?? DEFAULT_CHOICES;
  }

  /** Passes on a load report of the endpoint that arrived while a call was running. */
  reported(report: LoadReport, nowMs: number): void {
    this.#rule?.reported?.(this.#numbers, this.#at, report, this.inFlight, nowMs);
  }

  /**
   * Puts the endpoint on probation: it may get one call more than are running now, then one at a time. Each further round allows one more
   * call even if calls of the round before still run. `undefined` ends the probation.
   */
  setProbation(round: number | undefined): void {
    if (round === this.#probation) return;
    this.#probation = round;
    this.#probationSinceMs = this.#clock.now();
    this.#probationLimit = this.inFlight + 1;
    this.#skipsTrackers = false;
    this.#updateLimit();
  }

  /** A call starts on the endpoint. The caller must then call `end` exactly once. */
  start(nowMs: number): void {
    this.inFlight++;
    this.started++;
    const rule = this.#rule;
    if (rule?.start !== undefined) rule.start(nowMs);
  }

  /**
   * A call that started at `startedMs` has ended.
   *
   * @param measuredFromMs When the measured part of the call began: `startedMs`, unless only a part of the call is measured. It has no
   * default, because V8 would then put the number on the heap for every call.
   * @param isMeasured Whether the call's duration means something; false if this process's event loop was blocked.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome, measuredFromMs: number, isMeasured = true): void {
    this.inFlight--;
    if (this.#skipsTrackers && outcome.kind === 'success') {
      const rule = this.#rule;
      if (rule !== undefined) this.#tellEnd(rule, measuredFromMs, nowMs, outcome, isMeasured);
      this.#answered(nowMs | 0);
    } else this.#ended(startedMs, nowMs, outcome, measuredFromMs, isMeasured);
  }

  /** A running call has shown that the endpoint works. Stages count this as a success, and the end of the call as well. */
  confirm(startedMs: number): void {
    if (this.#skipsTrackers || this.state === 'closed') return;
    const nowMs = this.#clock.now();
    this.#track(outcomes.success, nowMs - startedMs, nowMs | 0);
  }

  #tellEnd(rule: LoadRule, measuredFromMs: number, nowMs: number, outcome: Outcome, isMeasured: boolean): void {
    if (isMeasured) rule.end(this.#numbers, this.#at, measuredFromMs, nowMs, outcome);
    else rule.endUnmeasured?.(this.#numbers, this.#at, measuredFromMs, nowMs);
  }

  #ended(startedMs: number, nowMs: number, outcome: Outcome, measuredFromMs: number, isMeasured: boolean): void {
    if (outcome.kind !== 'success') this.#unsuccessful++;
    // If a call ends that started before the probation, the room it leaves is not for a further call on probation.
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
    // After the subchannel is closed, stages have forgotten the endpoint, so calls that were cut are not reported to them. Stages get the
    // whole duration of a call, even if only the start of a stream counts as its latency.
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
      this.#skipsTrackers = this.#trackersIgnoreSuccess && this.#probation === undefined && this.state === 'ready';
    }
    if (outcome.cause !== 'timeout') this.#answered(atMs);
  }

  #answered(atMs: number): void {
    this.#lastAnswerMs = atMs;
    this.#startedByLastAnswer = this.started;
  }

  /** A connection was opened where there was none. */
  protected connected(): void {
    this.tellTrackersAgain();
    this.#rule?.connected?.(this.#numbers, this.#at);
    this.trackers.connected();
  }

  /** Makes the next successful call reach the trackers again, because it may mean something to them now. */
  protected tellTrackersAgain(): void {
    this.#trackersIgnoreSuccess = false;
    this.#skipsTrackers = false;
  }

  #updateLimit(): void {
    const isPolled = this.#connection !== undefined && !this.#isWatched;
    this.#limit = isPolled ? POLLED : Math.min(this.capacity, UNLIMITED);
  }
}
