/**
 * One core that all its jobs share evenly, computed exactly: whoever looks late still finds every job ended at its time, and the
 * others having got the rest.
 */
export class SharedCore {
  /** Work that each job has got which is here since the beginning, in ms. */
  #attained = 0;
  #atMs = 0;
  /** By the attained work at which they are done. @type {{ doneAt: number, onDone: (atMs: number) => void }[]} */
  #jobs = [];

  /** Jobs it works on. */
  get running() {
    return this.#jobs.length;
  }

  /**
   * A job comes.
   * @param {number} nowMs
   * @param {number} workMs
   * @param {(atMs: number) => void} onDone called by `advance` with the time at which it was done
   */
  take(nowMs, workMs, onDone) {
    this.advance(nowMs);
    const job = { doneAt: this.#attained + workMs, onDone };
    let index = this.#jobs.length;
    while (index > 0 && /** @type {{ doneAt: number }} */ (this.#jobs[index - 1]).doneAt > job.doneAt) index--;
    this.#jobs.splice(index, 0, job);
  }

  /** When the next job is done if no other comes; undefined = there is none. @returns {number | undefined} */
  get nextMs() {
    const [next] = this.#jobs;
    return next === undefined ? undefined : this.#atMs + (next.doneAt - this.#attained) * this.#jobs.length;
  }

  /** Goes on to this time, and ends what is done by then. @param {number} nowMs */
  advance(nowMs) {
    for (let at = this.nextMs; at !== undefined && at <= nowMs; at = this.nextMs) {
      const job = /** @type {{ doneAt: number, onDone: (atMs: number) => void }} */ (this.#jobs.shift());
      this.#attained = job.doneAt;
      this.#atMs = at;
      job.onDone(at);
    }
    if (nowMs <= this.#atMs) return;
    if (this.#jobs.length > 0) this.#attained += (nowMs - this.#atMs) / this.#jobs.length;
    this.#atMs = nowMs;
  }
}
