/** How a client of the fleet sends its calls over HTTP. */
import { roundRobin, staticEndpoints } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';
import { Agent, fetch as undiciFetch } from 'undici';

const ours =
  (/** @type {import('evenkeel/undici').DispatcherOptions} */ options) => (/** @type {readonly number[]} */ ports) => {
    const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));
    const fetch = createFetch('http://orders.test', { resolver, ...options });
    return {
      call: async (/** @type {number} */ workMs) =>
        (await fetch('/', { headers: { 'x-work-ms': String(workMs) } })).text(),
      close: () => fetch.close(),
    };
  };

/** @type {import('./fleet-contenders.mjs').Kinds} */
export const kinds = {
  /** undici's fetch, one address: what is behind it draws a pod for each connection. */
  stock: ([port]) => {
    let agent = new Agent();
    return {
      call: async (/** @type {number} */ workMs) => {
        const options = { dispatcher: agent, headers: { 'x-work-ms': String(workMs) } };
        return (await undiciFetch(`http://127.0.0.1:${port}/`, options)).text();
      },
      renew: () => {
        // What runs on the old connections ends there.
        void agent.close();
        agent = new Agent();
      },
      close: () => agent.close(),
    };
  },
  default: ours({}),
  roundRobin: ours({ picker: roundRobin() }),
};
