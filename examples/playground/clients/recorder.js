// @ts-check
/** What one client counts in its own process, until it reports to the playground. */
import { Histogram } from '../histogram.js';

/** Appended to the kind of an error that cut off a response: no client may retry such a call. */
export const BEGUN = ', its answer had begun';

/**
 * @typedef {object} Tally what happened to the requests that were due in one segment of time
 * @property {number} segment
 * @property {number} requests that were due
 * @property {Record<string, number>} pods answers by pod, answers with an error status included
 * @property {import('../histogram.js').HistogramPairs} latency of good answers
 * @property {Record<string, number>} errors by kind
 * @property {number} leftOut requests of which neither latency nor error is counted: a client was late, so they tell about this machine
 * @property {Record<string, number>} closes long-lived connections that were closed in it, by code
 */

/** @typedef {{ requests: number, pods: Record<string, number>, latency: Histogram, errors: Record<string, number>, leftOut: number, closes: Record<string, number> }} Open */

export class Recorder {
  /** @type {{ segment: number, from: number }[]} */
  #segments = [{ segment: 0, from: 0 }];
  /** @type {Map<number, Open>} */
  #open = new Map();

  /** Requests due from `from` (epoch ms) on belong to `segment`. @param {number} segment @param {number} from */
  mark(segment, from) {
    this.#segments.push({ segment, from });
  }

  /** A request was due; returns the segment to report its end under. @param {number} dueAt */
  begin(dueAt) {
    const segment = this.#segmentAt(dueAt);
    this.#tally(segment).requests += 1;
    return segment;
  }

  /** A long-lived connection was closed. @param {number} code @param {number} at epoch ms */
  close(code, at) {
    const { closes } = this.#tally(this.#segmentAt(at));
    closes[code] = (closes[code] ?? 0) + 1;
  }

  /** @param {number} segment @param {string} pod @param {number} latencyMs */
  succeed(segment, pod, latencyMs) {
    const tally = this.#tally(segment);
    tally.pods[pod] = (tally.pods[pod] ?? 0) + 1;
    tally.latency.record(latencyMs);
  }

  /** @param {number} segment @param {string} kind @param {string} [pod] the pod that answered, if one did */
  fail(segment, kind, pod) {
    const tally = this.#tally(segment);
    tally.errors[kind] = (tally.errors[kind] ?? 0) + 1;
    if (pod !== undefined) tally.pods[pod] = (tally.pods[pod] ?? 0) + 1;
  }

  /** A request ended of which nothing is known but who answered, if somebody did. @param {number} segment @param {string} [pod] */
  leaveOut(segment, pod) {
    const tally = this.#tally(segment);
    tally.leftOut += 1;
    if (pod !== undefined) tally.pods[pod] = (tally.pods[pod] ?? 0) + 1;
  }

  /** Everything counted since the last call. @returns {Tally[]} */
  take() {
    const tallies = [...this.#open].map(([segment, { requests, pods, latency, errors, leftOut, closes }]) => ({
      segment,
      requests,
      pods,
      latency: latency.pairs(),
      errors,
      leftOut,
      closes,
    }));
    this.#open.clear();
    return tallies;
  }

  /** @param {number} at epoch ms */
  #segmentAt(at) {
    return this.#segments.findLast(({ from }) => from <= at)?.segment ?? 0;
  }

  /** @param {number} segment @returns {Open} */
  #tally(segment) {
    let tally = this.#open.get(segment);
    if (tally === undefined) {
      tally = { requests: 0, pods: {}, latency: new Histogram(), errors: {}, leftOut: 0, closes: {} };
      this.#open.set(segment, tally);
    }
    return tally;
  }
}
