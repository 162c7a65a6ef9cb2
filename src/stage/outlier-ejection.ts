import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import type { OutcomeCause } from '../endpoint/outcome.js';
import { checkNumber, optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { ownProperties } from '../runtime/own-properties.js';
import { OutlierRecord, type OutlierRules } from './outlier-record.js';
import { deservesPanic } from './panic.js';
import type { Stage, StageContext, StageFactory } from './stage.js';

/**
 * Options of `outlierEjection`: which failures eject an endpoint, for how long, and how many endpoints at once. Invalid options throw
 * EVENKEEL_OPTION.
 */
export interface OutlierEjectionOptions {
  /**
   * This many failures in a row, or calls without a response of which one timed out, eject an endpoint; Infinity = never. @defaultValue 5
   */
  readonly consecutiveFailures?: number | undefined;
  /** An endpoint of whose latest calls at least this share failed is ejected, 0 to 1; Infinity = never. @defaultValue 0.2 */
  readonly failureRatio?: number | undefined;
  /**
   * For `failureRatio` to apply, the endpoint's share of failures must also be this many times that of all other endpoints. @defaultValue 3
   */
  readonly timesWorse?: number | undefined;
  /**
   * How many calls must have ended on an endpoint before its share of failures counts; shares cover about twice as many. @defaultValue 50
   */
  readonly minCalls?: number | undefined;
  /** How long the first ejection lasts, in ms, ± 10 %. Each ejection soon after another is twice as long. @defaultValue 1000 */
  readonly baseEjectionMs?: number | undefined;
  /** How long an ejection lasts at most, in ms. @defaultValue 60000 */
  readonly maxEjectionMs?: number | undefined;
  /**
   * The largest share of endpoints that may be ejected at once, 0 to 0.5. One may always be ejected while there is another. @defaultValue
   * 0.5
   */
  readonly maxEjectedRatio?: number | undefined;
  /**
   * Which causes of failure count. A connection that cannot be opened never counts, because the pool pauses before it tries that endpoint
   * again. @defaultValue timeout, reset, status, overload, protocol
   */
  readonly causes?: readonly Exclude<OutcomeCause, 'connect'>[] | undefined;
}

const allCauses = Object.freeze(['timeout', 'reset', 'status', 'overload', 'protocol'] as const);

export const outlierEjectionTable: OptionTable<Complete<OutlierEjectionOptions>> = optionTable('outlierEjection', {
  consecutiveFailures: numberOption(5, { min: 1, integer: true, infinite: true }),
  failureRatio: numberOption(0.2, { min: 0, max: 1, infinite: true }),
  timesWorse: numberOption(3, { min: 1, max: 1_000 }),
  minCalls: numberOption(50, { min: 1, max: 1_000_000, integer: true }),
  baseEjectionMs: numberOption(1_000, { min: 1, max: 3_600_000 }),
  maxEjectionMs: numberOption(60_000, { min: 1, max: 86_400_000 }),
  maxEjectedRatio: numberOption(0.5, { min: 0, max: 0.5 }),
  causes: { default: allCauses, check: checkCauses },
});

/**
 * Marks endpoints whose calls fail as suspect: after 5 failures in a row, 5 calls without a response of which one timed out, or a share of
 * failures that is high and several times that of the others. After the ejection, an endpoint is on probation: it gets one call at a time,
 * the first success restores it, and a failure ejects it for twice as long. If its connection is opened again, or it answers a probe,
 * probation begins early, once until the next success.
 *
 * At most half of the endpoints are suspect. One may be suspect whenever there is another, so this works from two pods on. `panic`, which
 * must come last, decides what happens to suspects. Throws EVENKEEL_OPTION for invalid options.
 *
 * Sources: the criteria and the doubling from Envoy's and gRPC's (A50) outlier detection; probation from circuit breakers.
 */
export const outlierEjection = (options: OutlierEjectionOptions = {}): StageFactory => {
  const rules = resolveRules(options);
  return described((context) => new OutlierEjection(rules, context), 'outlierEjection');
};

class OutlierEjection implements Stage {
  readonly #rules: OutlierRules;
  readonly #context: StageContext;
  readonly #records = new Map<string, OutlierRecord>();
  /** The sum of all endpoints' failure ratios and their number, to compare one endpoint with the others. */
  readonly #totals = { failing: 0, records: 0 };

  constructor(rules: OutlierRules, context: StageContext) {
    this.#rules = rules;
    this.#context = context;
  }

  track(endpoint: EndpointEntry['endpoint']): OutlierRecord {
    const record = new OutlierRecord(endpoint, this.#rules, this.#context, this.#totals, () => {
      if (this.#records.get(endpoint.key) === record) this.#records.delete(endpoint.key);
    });
    this.#records.set(endpoint.key, record);
    return record;
  }

  apply(set: EndpointSet): EndpointSet {
    const suspects: OutlierRecord[] = [];
    for (const { endpoint, weight } of set.entries) {
      const record = this.#records.get(endpoint.key);
      if (record !== undefined && weight > 0 && record.state !== 'good') suspects.push(record);
    }
    if (suspects.length === 0) return set;
    if (deservesPanic(set.map((entry) => this.#asSuspect(entry)))) {
      for (const record of suspects) record.forgive();
    } else this.#ejectWithin(set, suspects);
    return set.map((entry) => this.#asJudged(entry));
  }

  close(): void {
    for (const record of this.#records.values()) record.stop();
  }

  /** Ejects endpoints that meet a criterion but could not be ejected before, as far as the limit allows now. */
  #ejectWithin(set: EndpointSet, suspects: readonly OutlierRecord[]): void {
    const total = set.entries.filter(({ weight }) => weight > 0).length;
    let room = Math.max(1, Math.floor(total * this.#rules.maxEjectedRatio));
    for (const { state } of suspects) if (state === 'ejected') room--;
    for (const record of suspects) {
      if (room <= 0) return;
      if (record.state !== 'over-limit') continue;
      record.eject();
      room--;
    }
  }

  #asSuspect(entry: EndpointEntry): EndpointEntry {
    const record = this.#records.get(entry.endpoint.key);
    return record === undefined || record.state === 'good' ? entry : { ...entry, overLimit: true };
  }

  #asJudged(entry: EndpointEntry): EndpointEntry {
    const record = this.#records.get(entry.endpoint.key);
    if (record === undefined || record.state === 'good') return entry;
    if (record.state === 'ejected') return { ...entry, suspect: true };
    return record.state === 'probation' ? { ...entry, probation: record.round } : { ...entry, overLimit: true };
  }
}

function resolveRules(options: OutlierEjectionOptions): OutlierRules {
  const { causes, ...rules } = outlierEjectionTable.resolve(options);
  const { baseEjectionMs } = rules;
  const maxEjectionMs = checkNumber(
    'outlierEjection.maxEjectionMs',
    ownProperties(options).maxEjectionMs,
    Math.max(baseEjectionMs, outlierEjectionTable.defaults.maxEjectionMs),
    { min: baseEjectionMs, max: 86_400_000 },
  );
  return { ...rules, maxEjectionMs, causes: new Set<OutcomeCause | undefined>(causes) };
}

function checkCauses(name: string, value: unknown): readonly (typeof allCauses)[number][] {
  const known = allCauses.join(', ');
  if (!Array.isArray(value)) throw optionError(name, `a list of ${known}`, value);
  for (const cause of value) if (!allCauses.includes(cause)) throw optionError(`${name}[]`, `one of ${known}`, cause);
  return value;
}
