// @ts-check
/**
 * The work of a pod, whatever the protocol. Like a single-threaded service it processes one request at a time, and the next one
 * waits. Each client has its own worker (a lane), so the queue of one client never delays the others: several experiments on the
 * same pods.
 */
import { Lane } from './lane.js';

/** @typedef {'none' | 'slow' | 'failing' | 'unready'} Fault */

const SLOW_FACTOR = 10;
const FAILS_AFTER_MS = 1;

export class Work {
  /** What was done to the pod. @type {Fault} */
  fault = 'none';
  #serviceTimeMs;
  /** @type {Map<string, Lane>} */
  #lanes = new Map();
  #running = 0;
  #lastEndAt = performance.now();

  /** @param {number} serviceTimeMs how long a request takes, in the mean */
  constructor(serviceTimeMs) {
    this.#serviceTimeMs = serviceTimeMs;
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
   * Processes one request and resolves with whether it went well; never, if its client gave up before its turn.
   * @param {string} lane whose worker does it
   * @param {() => boolean} isGone whether the client gave up
   */
  async take(lane, isGone) {
    if (this.fault === 'failing') {
      await new Promise((resolve) => setTimeout(resolve, FAILS_AFTER_MS));
      return false;
    }
    await this.#laneOf(lane).work(isGone);
    return true;
  }

  /** Whether nothing runs and nothing has arrived for this long. @param {number} ms */
  quietFor(ms) {
    return this.#running === 0 && performance.now() - this.#lastEndAt > ms;
  }

  /** @param {string} name */
  #laneOf(name) {
    const lane = this.#lanes.get(name) ?? new Lane(() => this.#drawTime());
    this.#lanes.set(name, lane);
    return lane;
  }

  /** Most requests take a little less than the mean, a few take several times as long. */
  #drawTime() {
    const base = this.#serviceTimeMs * (0.6 - 0.4 * Math.log(1 - Math.random()));
    return Math.min(base, this.#serviceTimeMs * 6) * (this.fault === 'slow' ? SLOW_FACTOR : 1);
  }
}
