// @ts-check
/** @typedef {{ doneAt: number, isGone: () => boolean, done: () => void }} Job `doneAt`: the work each job has got by then */

/**
 * One core that all its requests share, as in a container with a limit of one CPU. It is computed: a busy machine delays single
 * answers, and no request costs the others more than its work.
 */
export class Core {
  /** Work in ms that each request has got which is here since the beginning. */
  #attained = 0;
  #at = performance.now();
  /** By `doneAt`. @type {Job[]} */
  #jobs = [];
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * Resolves when the core has done this work; never, if its client gives up before (`isGone`).
   * @param {number} workMs on a core of its own @param {Job['isGone']} isGone @returns {Promise<void>}
   */
  work(workMs, isGone) {
    return new Promise((done) => {
      this.#advance();
      const doneAt = this.#attained + workMs;
      const later = this.#jobs.findIndex((job) => job.doneAt > doneAt);
      this.#jobs.splice(later < 0 ? this.#jobs.length : later, 0, { doneAt, isGone, done });
      this.#plan();
    });
  }

  /** Up to now: each job ends at its time, whenever this is called. */
  #advance() {
    const now = performance.now();
    for (let next = this.#jobs[0]; next !== undefined; next = this.#jobs[0]) {
      const endsAt = this.#at + (next.doneAt - this.#attained) * this.#jobs.length;
      if (endsAt > now) break;
      this.#at = endsAt;
      this.#attained = next.doneAt;
      this.#jobs.shift();
      next.done();
    }
    if (this.#jobs.length > 0) this.#attained += (now - this.#at) / this.#jobs.length;
    this.#at = now;
    if (this.#jobs.some(({ isGone }) => isGone())) this.#jobs = this.#jobs.filter(({ isGone }) => !isGone());
  }

  #plan() {
    clearTimeout(this.#timer);
    const next = this.#jobs[0];
    if (next === undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#advance();
        this.#plan();
      },
      (next.doneAt - this.#attained) * this.#jobs.length,
    );
  }
}
