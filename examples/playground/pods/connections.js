// @ts-check
/** Open connections of a pod, each counted for the client whose first request it carried. */

const REPORT_MS = 100;

export class Connections {
  /** @type {Map<import('node:net').Socket, string>} */
  #lanes = new Map();
  /** Counted by a server itself. @type {Map<string, number>} */
  #told = new Map();
  #changed = false;

  /** @param {import('node:net').Socket} socket @param {string} lane */
  count(socket, lane) {
    if (this.#lanes.has(socket) || socket.destroyed) return;
    this.#lanes.set(socket, lane);
    this.#changed = true;
    socket.once('close', () => {
      this.#lanes.delete(socket);
      this.#changed = true;
    });
  }

  /** The number of a client's connections, from a server that counts them itself. @param {string} lane @param {number} open */
  tell(lane, open) {
    if ((this.#told.get(lane) ?? 0) === open) return;
    this.#told.set(lane, open);
    this.#changed = true;
  }

  /** Tells the numbers by client whenever they changed, at most ten times a second. @param {(byLane: Record<string, number>) => void} tell */
  report(tell) {
    setInterval(() => {
      if (!this.#changed) return;
      this.#changed = false;
      /** @type {Record<string, number>} */
      const byLane = Object.fromEntries(this.#told);
      for (const lane of this.#lanes.values()) byLane[lane] = (byLane[lane] ?? 0) + 1;
      tell(byLane);
    }, REPORT_MS);
  }
}
