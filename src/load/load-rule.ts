import { type LoadReport, type Outcome, outcomes } from '../endpoint/outcome.js';
import type { Warnings } from '../observe/warnings.js';
import type { CostOfCalls } from './call-costs.js';
import type { Cell } from './cells.js';
import { DEFAULT_CHOICES, type Load } from './load.js';
import type { RingStart } from './ring-start.js';

/**
 * Computes a load for all endpoints of a set. The numbers of one endpoint are in `numbers` from index `at` on, and its subchannel counts
 * its calls in flight, so a pick among thousands of endpoints reads only what it compares.
 */
export interface LoadRule {
  /** Whether the load's value changes with time alone, as in `Load.decays`. */
  readonly decays: boolean;
  /**
   * Called when a call starts, as `Load.start`; undefined if a start changes only the number of calls in flight. The property must exist
   * even then: if it did not, V8 would look it up in `Object.prototype`, where an application may have put an accessor that throws.
   */
  readonly start: ((nowMs: number) => void) | undefined;
  /** Called when a call ends, as `Load.end`. */
  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void;
  /**
   * Called in place of `end` if the call's duration means nothing because this process's event loop was blocked; absent if there is nothing
   * to do then.
   */
  endUnmeasured?(numbers: Float64Array, at: number, startedMs: number, nowMs: number): void;
  /** The endpoint could be connected to. If it failed before, that may have been an earlier process. */
  connected?(numbers: Float64Array, at: number): void;
  /** Takes a server's load report, as `Load.reported`. */
  reported?(numbers: Float64Array, at: number, report: LoadReport, inFlight: number, nowMs: number): void;
  /** The cost of one more call, as `Load.value`. */
  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number;
  /**
   * Computes `value` for loads that count calls. Subchannels call this object directly, because a call site with one class is faster than
   * one with many rules.
   */
  readonly calls?: CostOfCalls;
  /** The calls per second an endpoint could handle, as `Load.rate`. */
  rate?(numbers: Float64Array, at: number, nowMs: number): number | undefined;
  /**
   * What each further call adds to the value, as an integer. 0 or absent = value / (calls in flight + 1), which is right if only this
   * client's calls count.
   */
  unit?(numbers: Float64Array, at: number): number;
  /** How many endpoints `p2c` compares, as `Load.choices`. */
  readonly choices?: number | undefined;
  /** Where the client's part of the ring starts; only for rules whose cells have the layout of `latency-cell`. */
  readonly ring?: RingStart;
  /** Which share of its calls `rotatingAperture` gives a slow endpoint, 0 to 1; absent = every endpoint gets all. */
  share?(numbers: Float64Array, at: number): number;
}

/**
 * The load of one endpoint, computed by a rule. A subchannel makes it read the subchannel's own count of calls, and then calls the rule
 * directly.
 */
export class RuledLoad implements Load {
  readonly rule: LoadRule;
  readonly numbers: Float64Array;
  readonly at: number;
  /** What counts the calls in flight: this object itself, until `follow` was called. */
  #calls: { readonly inFlight: number } = this;
  inFlight = 0;

  constructor(rule: LoadRule, { numbers, at }: Cell) {
    this.rule = rule;
    this.numbers = numbers;
    this.at = at;
  }

  get decays(): boolean {
    return this.rule.decays;
  }

  /** From now on, `calls` counts the calls in flight, and `start` and `end` are no longer called. */
  follow(calls: { readonly inFlight: number }): void {
    this.#calls = calls;
  }

  start(): void {
    this.inFlight++;
  }

  end(startedMs: number, nowMs: number, outcome: Outcome): void {
    this.inFlight--;
    this.rule.end(this.numbers, this.at, startedMs, nowMs, outcome);
  }

  value(nowMs: number): number {
    return this.rule.value(this.numbers, this.at, this.#calls.inFlight, nowMs);
  }

  rate(nowMs: number): number | undefined {
    return this.rule.rate?.(this.numbers, this.at, nowMs);
  }

  /** Which share of its calls the endpoint gets, as `LoadRule.share`. */
  get share(): number {
    return this.rule.share?.(this.numbers, this.at) ?? 1;
  }

  reported(report: LoadReport, inFlight: number, nowMs: number): void {
    this.rule.reported?.(this.numbers, this.at, report, inFlight, nowMs);
  }

  get choices(): number {
    return this.rule.choices ?? DEFAULT_CHOICES;
  }
}

/**
 * Makes an application's own load usable as a rule for its one endpoint. It is the wall between the balancer and such a load: what it throws
 * becomes a warning. Only its value is read directly, by pickers; one that throws counts as a picker that throws.
 */
export class PluggedInRule implements LoadRule {
  readonly #load: Load;
  readonly #warnings: Warnings;

  constructor(load: Load, warnings: Warnings) {
    this.#load = load;
    this.#warnings = warnings;
  }

  get decays(): boolean {
    return this.#load.decays;
  }

  get choices(): number | undefined {
    return this.#load.choices;
  }

  start(nowMs: number): void {
    this.#tell(() => this.#load.start(nowMs));
  }

  reported(_numbers: Float64Array, _at: number, report: LoadReport, inFlight: number, nowMs: number): void {
    this.#tell(() => this.#load.reported?.(report, inFlight, nowMs));
  }

  end(_numbers: Float64Array, _at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    this.#tell(() => this.#load.end(startedMs, nowMs, outcome));
  }

  /** An application's own load may count calls in flight, so it must be notified of every end. */
  endUnmeasured(_numbers: Float64Array, _at: number, startedMs: number, nowMs: number): void {
    this.#tell(() => this.#load.end(startedMs, nowMs, outcomes.notStarted));
  }

  value(_numbers: Float64Array, _at: number, _inFlight: number, nowMs: number): number {
    return this.#load.value(nowMs);
  }

  #tell(call: () => void): void {
    this.#warnings.guarded('a load threw', call, undefined);
  }
}
