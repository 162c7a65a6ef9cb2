// @ts-check
/** What happened to the cluster, in words, newest last; the last hundred of them. */

const KEEP = 100;

/** @typedef {{ id: number, at: number, text: string }} LogEntry at: seconds since the start */

export class Log {
  /** @type {LogEntry[]} */
  entries = [];
  #ids = 0;
  #startedAt = performance.now();
  /** @type {Set<(entry: LogEntry) => void>} */
  #listeners = new Set();

  /** @param {string} text */
  add(text) {
    this.#ids += 1;
    const entry = { id: this.#ids, at: (performance.now() - this.#startedAt) / 1_000, text };
    this.entries.push(entry);
    if (this.entries.length > KEEP) this.entries.shift();
    for (const listener of this.#listeners) listener(entry);
  }

  /** @param {(entry: LogEntry) => void} listener */
  listen(listener) {
    this.#listeners.add(listener);
  }
}
