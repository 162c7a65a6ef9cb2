// @ts-check
/** What an application writes: axios, and an agent of evenkeel. `node examples/axios/demo.js` runs it on one machine. */
import axios from 'axios';
import { createAgent } from 'evenkeel/node-http';

/** @param {import('evenkeel/node-http').AgentOptions} [options] none in a pod */
export function createOrders(options) {
  const agent = createAgent('http://orders.shop:8080', options);
  // `proxy: false`: a proxy from the environment is for outside requests, not for pods.
  const orders = axios.create({ baseURL: 'http://orders.shop:8080', httpAgent: agent, proxy: false });
  return { agent, orders };
}
