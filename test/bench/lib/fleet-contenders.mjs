/** How a client of the fleet sends its calls. */
import { roundRobin, staticEndpoints } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';
import { Agent, fetch as undiciFetch } from 'undici';

/**
 * @typedef {object} Placed  A contender and where its pods are.
 * @property {keyof typeof kinds} kind
 * @property {readonly number[]} ports of its pods, or of what stands in front of them
 *
 * @typedef {object} Contender
 * @property {(workMs: number) => Promise<unknown>} call one call, to the end of its answer
 * @property {() => void} [renew] opens its connections anew
 * @property {() => Promise<void>} close
 */

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

const kinds = {
  /** undici's fetch, one address: what is behind it draws a pod for each connection. @param {readonly number[]} ports */
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

/** @param {Placed} placed @returns {Contender} */
export const createContender = ({ kind, ports }) => kinds[kind](ports);
