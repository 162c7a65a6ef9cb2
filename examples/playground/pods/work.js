// @ts-check
/**
 * The work of a pod, whatever the protocol. A pod has one core, which its requests share. Each client (a lane) has a core of its own in
 * every pod, so that one client's load never delays the others: several experiments on the same pods.
 */
import { Core } from './core.js';

/** @typedef {'none' | 'slow' | 'failing' | 'unready'} Fault */

const SLOW_FACTOR = 10;
const FAILS_AFTER_MS = 1;
/** For whoever sends requests by hand. */
const DEFAULT_SERVICE_TIME_MS = 5;

export class Work {
  /** What was done to the pod. @type {Fault} */
  fault = 'none';
  #serviceTimes;
  /** By lane. @type {Map<string, Core>} */
  #cores = new Map();
  #running = 0;
  #lastEndAt = performance.now();

  /** @param {Readonly<Record<string, number>>} serviceTimes the mean work on a request in ms, by protocol */
  constructor(serviceTimes) {
    this.#serviceTimes = serviceTimes;
  }

  /** A request arrived. Call the returned function when it ends in any way; only the first call counts. */
  begin() {
    this.#running += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#running -= 1;
      this.#lastEndAt = performance.now();
    };
  }

  /**
   * Processes one request and resolves with whether it went well; never, if its client gave up before.
   * @param {string} lane whose core does it: protocol and client, as in `http/evenkeel`
   * @param {() => boolean} isGone whether the client gave up
   */
  async take(lane, isGone) {
    if (this.fault === 'failing') {
      await new Promise((resolve) => setTimeout(resolve, FAILS_AFTER_MS));
      return false;
    }
    await this.#coreOf(lane).work(this.#drawWork(lane), isGone);
    return true;
  }

  /** Whether nothing runs and nothing has arrived for this long. @param {number} ms */
  quietFor(ms) {
    return this.#running === 0 && performance.now() - this.#lastEndAt > ms;
  }

  /** @param {string} lane */
  #coreOf(lane) {
    const core = this.#cores.get(lane) ?? new Core();
    this.#cores.set(lane, core);
    return core;
  }

  /** Most requests take a little less than the mean, a few take several times as long. @param {string} lane */
  #drawWork(lane) {
    const mean = this.#serviceTimes[lane.split('/', 1)[0] ?? ''] ?? DEFAULT_SERVICE_TIME_MS;
    const work = mean * (0.6 - 0.4 * Math.log(1 - Math.random()));
    return Math.min(work, mean * 6) * (this.fault === 'slow' ? SLOW_FACTOR : 1);
  }
}
