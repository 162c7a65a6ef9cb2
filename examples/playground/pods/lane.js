// @ts-check
/** @typedef {{ arrivedAt: number, isGone: () => boolean, done: () => void }} Waiting */

/** A worker that processes one request after another. */
export class Lane {
  #drawTime;
  /** @type {Waiting[]} */
  #queue = [];
  #busy = false;
  #freeAt = 0;

  /** @param {() => number} drawTime how long the next request takes, in ms */
  constructor(drawTime) {
    this.#drawTime = drawTime;
  }

  /** Resolves when the worker has processed this request; never, if its client gives up (`isGone`) before its turn. @param {Waiting['isGone']} isGone @returns {Promise<void>} */
  work(isGone) {
    return new Promise((done) => {
      this.#queue.push({ arrivedAt: performance.now(), isGone, done });
      if (!this.#busy) this.#next();
    });
  }

  #next() {
    let next = this.#queue.shift();
    while (next?.isGone()) next = this.#queue.shift();
    this.#busy = next !== undefined;
    if (next === undefined) return;
    const { arrivedAt, done } = next;
    // Counted from when the worker was free, not from when a late timer fired: a busy machine delays one answer, not all.
    this.#freeAt = Math.max(arrivedAt, this.#freeAt) + this.#drawTime();
    setTimeout(() => {
      done();
      this.#next();
    }, this.#freeAt - performance.now());
  }
}
