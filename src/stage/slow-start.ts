import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { Timer } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { Stage, StageContext, StageFactory, Tracker } from './stage.js';

/** Options of `slowStart`: how long a new endpoint gets less traffic, and how its share grows. Invalid options throw EVENKEEL_OPTION. */
export interface SlowStartOptions {
  /** How long it takes until a new endpoint has its full weight, in ms. @defaultValue 30000 */
  readonly windowMs?: number | undefined;
  /**
   * After this many successful calls, a new endpoint has its full weight anyway, because servers often warm up by calls, not by time.
   * @defaultValue 1000
   */
  readonly calls?: number | undefined;
  /** The share of its weight with which a new endpoint starts, above 0 to 1. @defaultValue 0.1 */
  readonly minRatio?: number | undefined;
  /**
   * How the weight of a new endpoint grows: 1 = linearly; 2 = with the square root of time, fast at first; 0.5 = with its square.
   * @defaultValue 1
   */
  readonly aggression?: number | undefined;
}

export const slowStartTable: OptionTable<Complete<SlowStartOptions>> = optionTable('slowStart', {
  windowMs: numberOption(30_000, { min: 1, max: 86_400_000 }),
  calls: numberOption(1_000, { min: 1, infinite: true }),
  minRatio: numberOption(0.1, { min: 0.001, max: 1 }),
  aggression: numberOption(1, { min: 0.1, max: 100 }),
});
type SlowStartRules = Complete<SlowStartOptions>;

/** The weights of new endpoints are updated this many times per window, but not more often than every `MIN_STEP_MS`. */
const STEPS = 20;
const MIN_STEP_MS = 250;

/**
 * New endpoints start with a share of their weight that grows over a window: for servers that compile, connect and fill caches when the
 * first calls arrive. An endpoint's age counts from when this process first had a connection to the pod, and advances with calls as well as
 * with time.
 *
 * Endpoints of the first set are not new, because a client that starts knows nothing about the age of its pods. If every endpoint is new,
 * none is held back, because weights only determine shares. Off unless included in `stages`.
 * Source: Envoy's slow start, including `aggression`.
 */
export const slowStart = (options: SlowStartOptions = {}): StageFactory => {
  const rules = slowStartTable.resolve(options);
  return described((context) => new SlowStart(rules, context), 'slowStart');
};

/** The warm-up of one endpoint. */
class Newcomer implements Tracker {
  /** Whether the endpoint has its full weight, because it is warm or was in the first set. */
  old = false;
  readonly #clock: StageContext['clock'];
  readonly #owner: { forget(): void; ages(): void };
  #connectedAtMs: number | undefined;
  #calls = 0;

  constructor(clock: StageContext['clock'], owner: { forget(): void; ages(): void }) {
    this.#clock = clock;
    this.#owner = owner;
  }

  connected(): void {
    if (this.#connectedAtMs !== undefined) return;
    this.#connectedAtMs = this.#clock.now();
    if (!this.old) this.#owner.ages();
  }

  /** Whether the endpoint is connected and new, so that its weight grows with time. */
  get ages(): boolean {
    return !this.old && this.#connectedAtMs !== undefined;
  }

  /** Whether the endpoint has its full weight, so that its successes need not be counted. */
  get ignoresSuccess(): boolean {
    return this.old;
  }

  completed(outcome: Outcome): void {
    if (outcome.kind === 'success') this.#calls++;
  }

  closed(): void {
    this.#owner.forget();
  }

  /** How far the endpoint has warmed up, from 0 (not connected, or just now) to 1 (full weight). */
  progress({ windowMs, calls }: SlowStartRules): number {
    if (this.old) return 1;
    const ageMs = this.#connectedAtMs === undefined ? 0 : this.#clock.now() - this.#connectedAtMs;
    const progress = Math.max(ageMs / windowMs, this.#calls / calls);
    if (progress >= 1) this.old = true;
    return Math.min(1, progress);
  }
}

class SlowStart implements Stage {
  readonly #rules: SlowStartRules;
  readonly #context: StageContext;
  readonly #newcomers = new Map<string, Newcomer>();
  /** The keys of endpoints that were in the first set and have stayed ever since; undefined before that set. */
  #first: Set<string> | undefined;
  #timer: Timer | undefined;

  constructor(rules: SlowStartRules, context: StageContext) {
    this.#rules = rules;
    this.#context = context;
  }

  track({ key }: Endpoint): Tracker {
    const newcomer = new Newcomer(this.#context.clock, {
      forget: () => {
        if (this.#newcomers.get(key) !== newcomer) return;
        this.#newcomers.delete(key);
        // An endpoint that returns at this address may be another pod, which is new.
        this.#first?.delete(key);
      },
      ages: () => this.#context.invalidate(),
    });
    newcomer.old = this.#first?.has(key) ?? false;
    this.#newcomers.set(key, newcomer);
    return newcomer;
  }

  apply(set: EndpointSet): EndpointSet {
    if (this.#first === undefined && set.size > 0)
      this.#first = new Set(set.entries.map(({ endpoint }) => endpoint.key));
    this.#timer?.cancel();
    this.#timer = undefined;
    const progress = new Map<EndpointEntry, number>();
    let someOld = false;
    let ageing = false;
    for (const entry of set.entries) {
      if (entry.weight <= 0) continue;
      const newcomer = this.#newcomers.get(entry.endpoint.key);
      const done = newcomer?.progress(this.#rules) ?? (this.#first?.has(entry.endpoint.key) === true ? 1 : 0);
      if (done < 1) progress.set(entry, done);
      else someOld = true;
      if (newcomer?.ages === true) ageing = true;
    }
    if (ageing) {
      const stepMs = Math.max(MIN_STEP_MS, this.#rules.windowMs / STEPS);
      this.#timer = this.#context.clock.timer(() => this.#context.invalidate(), stepMs);
    }
    if (progress.size === 0 || !someOld) return set;
    const { minRatio, aggression } = this.#rules;
    return set.map((entry) => {
      const done = progress.get(entry);
      if (done === undefined) return entry;
      return { ...entry, weight: entry.weight * Math.max(minRatio, done ** (1 / aggression)) };
    });
  }

  close(): void {
    this.#timer?.cancel();
  }
}
