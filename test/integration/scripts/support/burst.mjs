/**
 * Sends many requests at once, over one way to send them, and prints as JSON how they ended: `{ ok, errors: { code: count } }`.
 *
 *   node burst.mjs '{"how": "fetch", "count": 1500, "warm": true, "ports": [1234, …]}'
 */
import { Agent, get } from 'node:http';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createAppAgent, createDispatcher, createFetch } from 'evenkeel/undici';
import * as undici from 'undici';

const { how, count, warm, ports, blockMs } = JSON.parse(process.argv[2]);
const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));
const target = 'http://orders.shop';
const stock = `http://127.0.0.1:${ports[0]}/`;

/** @param {string} url @param {Agent} agent */
const viaNode = (url, agent) =>
  new Promise((resolve, reject) => {
    get(url, { agent }, (response) => response.resume().on('end', resolve).on('error', reject)).on('error', reject);
  });

const ways = {
  fetch() {
    const orders = createFetch(target, { resolver });
    return async () => (await orders('/')).text();
  },
  dispatcher() {
    const orders = createDispatcher(target, { resolver });
    return async () => (await orders.request({ path: '/', method: 'GET' })).body.text();
  },
  'whole app'() {
    const discovery = { dns: { clusterDomain: 'cluster.local', servers: ['127.0.0.1:1'] } };
    const services = ({ hostname }) => hostname === 'orders.shop' || undefined;
    const dispatcher = createAppAgent({ discovery, services, options: () => ({ resolver }) });
    return async () => (await undici.fetch(`${target}/`, { dispatcher })).text();
  },
  'node:http'() {
    const agent = createAgent(target, { resolver });
    return () => viaNode(`${target}/`, agent);
  },
  'stock fetch': () => async () => (await fetch(stock)).text(),
  'stock node:http'() {
    const agent = new Agent({ keepAlive: true });
    return () => viaNode(stock, agent);
  },
};

const call = ways[how]();
if (warm) await call();
const sent = Array.from({ length: count }, call);
if (blockMs > 0) {
  // One turn after the requests were made.
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs));
}
const ends = await Promise.allSettled(sent);
const errors = {};
for (const { status, reason } of ends) {
  if (status === 'fulfilled') continue;
  const code = reason?.cause?.code ?? reason?.code ?? String(reason);
  errors[code] = (errors[code] ?? 0) + 1;
}
console.log(JSON.stringify({ ok: ends.filter(({ status }) => status === 'fulfilled').length, errors }));
process.exit(0);
