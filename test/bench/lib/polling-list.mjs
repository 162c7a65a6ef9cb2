/** A list of pods that is asked for once a second, as people do who have nothing that tells them of changes. */

const POLL_MS = 1_000;

/** One member per pod that is ready. @template T */
export class PollingList {
  #pods;
  #hooks;
  /** @type {Map<string, T>} */
  #members = new Map();
  /** @type {T[]} */
  members = [];
  #timer;

  /**
   * @param {import('./pods.mjs').Pods} pods
   * @param {{ add: (origin: string) => T, remove: (member: T) => void }} hooks
   */
  constructor(pods, hooks) {
    this.#pods = pods;
    this.#hooks = hooks;
    this.#poll();
    this.#timer = setInterval(() => this.#poll(), POLL_MS);
    this.#timer.unref();
  }

  close() {
    clearInterval(this.#timer);
    for (const member of this.#members.values()) this.#hooks.remove(member);
    this.#members.clear();
  }

  #poll() {
    const origins = new Set(this.#pods.ready.map(({ address, port }) => `http://${address}:${port}`));
    for (const origin of origins) if (!this.#members.has(origin)) this.#members.set(origin, this.#hooks.add(origin));
    for (const [origin, member] of this.#members) {
      if (origins.has(origin)) continue;
      this.#members.delete(origin);
      this.#hooks.remove(member);
    }
    this.members = [...this.#members.values()];
  }
}
