// @ts-check
/** Addresses for pods. On Linux every address of 127.0.0.0/8 can be bound, so each pod gets its own; on other systems they share one. */
import { createServer } from 'node:net';

const FIRST = 2;
const LAST = 254;
const SHARED = '127.0.0.1';

/** Whether pods can have their own addresses here; headless DNS needs that, because its answers contain no ports. @returns {Promise<boolean>} */
export const canHaveOwnAddresses = () =>
  new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(0, `127.0.0.${FIRST}`, () => server.close(() => resolve(true)));
  });

/** Hands out addresses in turn, so that a returned one rests as long as possible. @param {boolean} own */
export function createAddresses(own) {
  /** @type {Set<string>} */
  const taken = new Set();
  let last = FIRST - 1;
  return {
    take() {
      if (!own) return SHARED;
      for (let tries = FIRST; tries <= LAST; tries++) {
        last = last === LAST ? FIRST : last + 1;
        const address = `127.0.0.${last}`;
        if (taken.has(address)) continue;
        taken.add(address);
        return address;
      }
      throw new Error('no address is left for another pod');
    },
    /** @param {string} address */
    giveBack: (address) => taken.delete(address),
  };
}
