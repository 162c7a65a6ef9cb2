// @ts-check
/** What is known about one client: the last minute for the live views, and sums per segment for the table. */
import { NO_FRAME } from './clients/websocket.js';
import { Histogram } from './histogram.js';

const KEEP_MS = 60_000;
const RATE_WINDOW_MS = 2_000;
const LATENCY_WINDOW_MS = 5_000;
const SPREAD_WINDOW_MS = 10_000;
// After the set of ready pods changes, answers to earlier requests still come in.
const SPREAD_DELAY_MS = 300;
// Fewer answers than this say nothing about a spread.
const SPREAD_MIN_ANSWERS = 50;

/**
 * @typedef {object} Totals
 * @property {number} requests
 * @property {Map<string, number>} pods
 * @property {Histogram} latency
 * @property {Map<string, number>} errors
 * @property {number} leftOut requests of which nothing else is counted
 * @property {Map<string, number>} closes of long-lived connections, by code
 */

/** @returns {Totals} */
const emptyTotals = () => ({
  requests: 0,
  pods: new Map(),
  latency: new Histogram(),
  errors: new Map(),
  leftOut: 0,
  closes: new Map(),
});

/** @param {Map<string, number>} into @param {Record<string, number>} from */
function addCounts(into, from) {
  for (const [key, count] of Object.entries(from)) into.set(key, (into.get(key) ?? 0) + count);
}

/** @param {Totals} into @param {import('./clients/recorder.js').Tally} tally */
function addTally(into, tally) {
  into.requests += tally.requests;
  addCounts(into.pods, tally.pods);
  into.latency.addPairs(tally.latency);
  addCounts(into.errors, tally.errors);
  into.leftOut += tally.leftOut;
  addCounts(into.closes, tally.closes);
}

/** @param {Iterable<number>} counts */
const sum = (counts) => [...counts].reduce((total, count) => total + count, 0);

/** Total number of errors. @param {Totals} totals */
export const errorCount = (totals) => sum(totals.errors.values());

/** How many long-lived connections ended without a close frame. @param {Totals} totals */
export const cutCount = (totals) => totals.closes.get(String(NO_FRAME)) ?? 0;

/**
 * The busiest pod's share against the mean over `pods`: 1 is even. Undefined without answers.
 * @param {Map<string, number>} answers @param {readonly string[]} pods
 */
export function maxOverMean(answers, pods) {
  const total = sum(answers.values());
  if (total === 0 || pods.length === 0) return undefined;
  return Math.max(...answers.values()) / (total / pods.length);
}

/** @typedef {{ at: number, tallies: readonly import('./clients/recorder.js').Tally[], lateMs: number }} Tick one report, when it came */

/** The live view of one client. @typedef {ReturnType<Board['live']>} ClientView */

export class Board {
  /** @type {Tick[]} */
  #ticks = [];
  /** @type {Map<number, Totals>} */
  #segments = new Map();
  #all = emptyTotals();
  /** Since the errors were last cleared. */
  #shown = emptyTotals();
  /** @type {number[]} */
  #p99PerSecond = [];
  #secondEndsAt = 0;
  #inFlight = 0;
  /** Pods the client avoids because of how they behaved. @type {readonly string[]} */
  setAside = [];
  /** The latest that the client itself ever sent. */
  latestMs = 0;

  /** @param {import('./clients/client.js').Report} report @param {number} now */
  add(report, now) {
    this.#inFlight = report.inFlight;
    this.setAside = report.setAside;
    this.#ticks.push({ at: now, tallies: report.tallies, lateMs: report.lateMs });
    this.latestMs = Math.max(this.latestMs, report.lateMs);
    while ((this.#ticks[0]?.at ?? now) < now - KEEP_MS) this.#ticks.shift();
    for (const tally of report.tallies) {
      addTally(this.#all, tally);
      addTally(this.#shown, tally);
      addTally(this.segment(tally.segment), tally);
    }
    if (now >= this.#secondEndsAt) {
      this.#secondEndsAt = now + 1_000;
      this.#p99PerSecond.push(this.#since(now - 1_000).latency.quantile(0.99) ?? 0);
      if (this.#p99PerSecond.length > KEEP_MS / 1_000) this.#p99PerSecond.shift();
    }
  }

  /** Sums over requests due in a segment. @param {number} segment */
  segment(segment) {
    let totals = this.#segments.get(segment);
    if (totals === undefined) {
      totals = emptyTotals();
      this.#segments.set(segment, totals);
    }
    return totals;
  }

  /** Errors and cut connections are shown from here on; returns whether there were any. */
  clearErrors() {
    const had = errorCount(this.#shown) + cutCount(this.#shown) > 0;
    this.#shown = emptyTotals();
    return had;
  }

  /** Requests, errors and cut connections since the start. */
  sums() {
    return { requests: this.#all.requests, errors: errorCount(this.#all), cut: cutCount(this.#all) };
  }

  /**
   * @param {number} now
   * @param {readonly string[]} readyPods
   * @param {number} readySince when that set last changed; the spread counts from there, at most ten seconds back
   */
  live(now, readyPods, readySince) {
    const { pods: rates } = this.#since(now - RATE_WINDOW_MS);
    const { latency } = this.#since(now - LATENCY_WINDOW_MS);
    const spread = this.#since(Math.max(now - SPREAD_WINDOW_MS, readySince + SPREAD_DELAY_MS)).pods;
    const enough = sum(spread.values()) >= SPREAD_MIN_ANSWERS;
    return {
      requests: this.#all.requests,
      answers: Object.fromEntries(this.#all.pods),
      perSecond: Object.fromEntries([...rates].map(([pod, count]) => [pod, (count * 1_000) / RATE_WINDOW_MS])),
      maxOverMean: enough ? maxOverMean(spread, readyPods) : undefined,
      p50Ms: latency.quantile(0.5),
      p99Ms: latency.quantile(0.99),
      p99PerSecond: this.#p99PerSecond,
      errors: errorCount(this.#shown),
      recentErrors: errorCount(this.#since(now - LATENCY_WINDOW_MS)),
      errorKinds: Object.fromEntries(this.#shown.errors),
      cut: cutCount(this.#shown),
      closes: Object.fromEntries(this.#all.closes),
      inFlight: this.#inFlight,
      setAside: this.setAside,
      latestMs: this.latestMs,
      lateMs: Math.max(0, ...this.#ticks.filter(({ at }) => at > now - LATENCY_WINDOW_MS).map((tick) => tick.lateMs)),
    };
  }

  /** @param {number} from */
  #since(from) {
    const totals = emptyTotals();
    for (let index = this.#ticks.length - 1; index >= 0; index--) {
      const tick = /** @type {Tick} */ (this.#ticks[index]);
      if (tick.at < from) break;
      for (const tally of tick.tallies) addTally(totals, tally);
    }
    return totals;
  }
}
