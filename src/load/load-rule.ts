import { type Outcome, outcomes } from '../endpoint/outcome.js';
import type { Cell } from './cells.js';
import type { Load } from './load.js';

/**
 * How a load reckons. Written once for all endpoints: what is known of one lies in `numbers` from `at` on, and how many
 * calls it has in flight is counted by its subchannel. So a pick that compares thousands of endpoints reads only what it
 * compares.
 */
export interface LoadRule {
  /** As `Load.decays`. */
  readonly decays: boolean;
  /** As `Load.start`; absent where a beginning changes only what is in flight. */
  start?(nowMs: number): void;
  /** As `Load.end`. */
  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void;
  /**
   * In place of `end` where the time the call took says nothing, since our own event loop stood still; absent where nothing
   * is to be done then.
   */
  endUnmeasured?(startedMs: number, nowMs: number): void;
  /** As `Load.value`. */
  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number;
  /** As `Load.rate`. */
  rate?(numbers: Float64Array, at: number, nowMs: number): number | undefined;
}

/** One endpoint's load by a rule. A subchannel makes it follow its own count and then works with the rule itself. */
export class RuledLoad implements Load {
  readonly rule: LoadRule;
  readonly numbers: Float64Array;
  readonly at: number;
  /** What counts the calls in flight: itself, while nobody else does. */
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

  /** From now on `calls` counts what is in flight, and this hears of no call. */
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
}

/** A load that was plugged in, as the rule of its endpoint. */
export class PluggedInRule implements LoadRule {
  readonly #load: Load;

  constructor(load: Load) {
    this.#load = load;
  }

  get decays(): boolean {
    return this.#load.decays;
  }

  start(nowMs: number): void {
    this.#load.start(nowMs);
  }

  end(_numbers: Float64Array, _at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    this.#load.end(startedMs, nowMs, outcome);
  }

  /** It may count what is in flight, so it has to hear of the end. */
  endUnmeasured(startedMs: number, nowMs: number): void {
    this.#load.end(startedMs, nowMs, outcomes.notStarted);
  }

  value(_numbers: Float64Array, _at: number, _inFlight: number, nowMs: number): number {
    return this.#load.value(nowMs);
  }
}
