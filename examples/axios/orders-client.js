// @ts-check
/**
 * A client of the orders service, as in an application: axios, plus one line for evenkeel.
 *
 *   node orders-client.js http://orders.shop:8080      sends a request every 100 ms and prints who answered, until Ctrl+C
 */
import axios from 'axios';
import { createAgent } from 'evenkeel/node-http';

/** @param {string} service @param {import('evenkeel/node-http').AgentOptions} options */
export function ordersClient(service, options = {}) {
  const agent = createAgent(service, options);
  // `proxy: false`: a proxy from the environment is for outside requests, not for pods.
  const client = axios.create({ baseURL: service, httpAgent: agent, proxy: false, timeout: 2_000 });
  return {
    balancer: agent.balancer,
    /** @param {number} id @returns {Promise<{ id: string, pod: string }>} */
    get: async (id) => (await client.get(`/v1/orders/${id}`)).data,
    /** @param {object} order @returns {Promise<{ id: string, pod: string }>} */
    create: async (order) => (await client.post('/v1/orders', order)).data,
    close: () => agent.close(),
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const client = ordersClient(process.argv[2] ?? 'http://orders.shop:8080', {
    observer: { discoveryChanged: ({ mode, reason, advice }) => console.log(`${mode}: ${reason}`, advice ?? '') },
  });
  for (let id = 1; ; id++) {
    await client.get(id).then(
      ({ pod }) => console.log(pod),
      (error) => console.log(error.message),
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
