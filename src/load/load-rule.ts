import { type LoadReport, type Outcome, outcomes } from '../endpoint/outcome.js';
import type { CostOfCalls } from './call-costs.js';
import type { Cell } from './cells.js';
import { DEFAULT_CHOICES, type Load, type LoadFacts } from './load.js';
import type { Preferences } from './preference.js';

/**
 * How a load is computed; one rule is shared by all endpoints. The numbers of one endpoint are in `numbers` from `at` on, and its
 * subchannel counts its calls in flight, so a pick among thousands of endpoints reads only what it compares.
 */
export interface LoadRule {
  /** Whether the value changes over time by itself, as `Load.decays`. */
  readonly decays: boolean;
  /**
   * Called when a call starts, as `Load.start`; undefined if the start of a call changes only what is in flight. Never absent: the look-up
   * would go on to `Object.prototype`, where the application may have put an accessor that throws.
   */
  readonly start: ((nowMs: number) => void) | undefined;
  /** Called when a call ends, as `Load.end`. */
  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void;
  /**
   * Called instead of `end` if the call's duration is meaningless because our own event loop was blocked; absent if there is
   * nothing to do.
   */
  endUnmeasured?(startedMs: number, nowMs: number): void;
  /** Takes a server's load report, as `Load.reported`. */
  reported?(numbers: Float64Array, at: number, report: LoadReport, inFlight: number, nowMs: number): void;
  /** The cost of one more call, as `Load.value`. */
  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number;
  /**
   * Computes `value`, if the load counts calls. A subchannel calls it directly, because a call site with one class is faster than one
   * with many rules.
   */
  readonly calls?: CostOfCalls;
  /** The calls per second an endpoint could handle, as `Load.rate`. */
  rate?(numbers: Float64Array, at: number, nowMs: number): number | undefined;
  /**
   * What each further call adds to the value, an integer; 0 or absent = value / (calls in flight + 1), which is right if only our
   * own calls count.
   */
  unit?(numbers: Float64Array, at: number): number;
  /** How many endpoints `p2c` compares, as `Load.choices`. */
  readonly choices?: number | undefined;
  /** What an order of preference compares endpoints by, if the cells have the layout of `latency-cell`. */
  readonly preferences?: Preferences;
  /** What the rule knows about an endpoint, for display. */
  facts?(numbers: Float64Array, at: number, nowMs: number): LoadFacts;
  /** The rule's own state, besides the numbers of its endpoints, for a recording; absent if there is none. */
  memory?(): number[];
  /** Restores what `memory` returned. `cells` are those of the endpoints, with their numbers already in place. */
  recall?(memory: readonly number[], cells: readonly Cell[]): void;
}

/** One endpoint's load by a rule. A subchannel points it to its own count and then uses the rule directly. */
export class RuledLoad implements Load {
  readonly rule: LoadRule;
  readonly numbers: Float64Array;
  readonly at: number;
  /** How many numbers the endpoint has in its cell. */
  readonly fields: number;
  /** Counts the calls in flight: this object itself, until `follow`. */
  #calls: { readonly inFlight: number } = this;
  inFlight = 0;

  constructor(rule: LoadRule, { numbers, at, fields = 0 }: Cell) {
    this.rule = rule;
    this.numbers = numbers;
    this.at = at;
    this.fields = fields;
  }

  get decays(): boolean {
    return this.rule.decays;
  }

  /** From now on `calls` counts the calls in flight; `start` and `end` are no longer called. */
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

  /** What the rule knows about the endpoint, as `LoadRule.facts`; empty if there is nothing. */
  facts(nowMs: number): LoadFacts {
    return this.rule.facts?.(this.numbers, this.at, nowMs) ?? {};
  }

  reported(report: LoadReport, inFlight: number, nowMs: number): void {
    this.rule.reported?.(this.numbers, this.at, report, inFlight, nowMs);
  }

  get choices(): number {
    return this.rule.choices ?? DEFAULT_CHOICES;
  }
}

/** Adapts a load of the application's own to a rule for its endpoint. */
export class PluggedInRule implements LoadRule {
  readonly #load: Load;

  constructor(load: Load) {
    this.#load = load;
  }

  get decays(): boolean {
    return this.#load.decays;
  }

  get choices(): number | undefined {
    return this.#load.choices;
  }

  start(nowMs: number): void {
    this.#load.start(nowMs);
  }

  reported(_numbers: Float64Array, _at: number, report: LoadReport, inFlight: number, nowMs: number): void {
    this.#load.reported?.(report, inFlight, nowMs);
  }

  end(_numbers: Float64Array, _at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    this.#load.end(startedMs, nowMs, outcome);
  }

  /** A load of the application's own may count calls in flight, so it needs every end. */
  endUnmeasured(startedMs: number, nowMs: number): void {
    this.#load.end(startedMs, nowMs, outcomes.notStarted);
  }

  value(_numbers: Float64Array, _at: number, _inFlight: number, nowMs: number): number {
    return this.#load.value(nowMs);
  }
}
