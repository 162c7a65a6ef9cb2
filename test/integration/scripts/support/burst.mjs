/**
 * Sends many requests at once, over one way to send them, and says how they ended. As a program it prints that as JSON.
 *
 *   node burst.mjs '{"how": "fetch", "count": 1500, "warm": true, "ports": [1234, …]}'
 */
import { get } from 'node:http';
import { fileURLToPath } from 'node:url';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createAppAgent, createDispatcher, createFetch } from 'evenkeel/undici';
import * as undici from 'undici';

const target = 'http://orders.shop';

/** @param {string} url @param {import('node:http').Agent} agent */
const viaNode = (url, agent) =>
  new Promise((resolve, reject) => {
    get(url, { agent }, (response) => response.resume().on('end', resolve).on('error', reject)).on('error', reject);
  });

/** Each gives what sends one request, and what ends the client. */
const ways = {
  fetch(resolver) {
    const orders = createFetch(target, { resolver });
    return { call: async () => (await orders('/')).text(), close: () => orders.close() };
  },
  dispatcher(resolver) {
    const orders = createDispatcher(target, { resolver });
    const call = async () => (await orders.request({ path: '/', method: 'GET' })).body.text();
    return { call, close: () => orders.close() };
  },
  'whole app'(resolver) {
    const discovery = { dns: { clusterDomain: 'cluster.local', servers: ['127.0.0.1:1'] } };
    const services = ({ hostname }) => hostname === 'orders.shop' || undefined;
    const dispatcher = createAppAgent({ discovery, services, options: () => ({ resolver }) });
    const call = async () => (await undici.fetch(`${target}/`, { dispatcher })).text();
    return { call, close: () => dispatcher.close() };
  },
  'node:http'(resolver) {
    const agent = createAgent(target, { resolver });
    return { call: () => viaNode(`${target}/`, agent), close: () => agent.close() };
  },
};

/** @param {{ how: string, count: number, warm: boolean, ports: readonly number[], blockMs?: number, warmed?: Promise<unknown> }} given */
export async function burst({ how, count, warm, ports, blockMs = 0, warmed }) {
  const { call, close } = ways[how](staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port }))));
  if (warm) await call();
  await warmed;
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
  await close();
  return { ok: ends.filter(({ status }) => status === 'fulfilled').length, errors };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(JSON.stringify(await burst(JSON.parse(process.argv[2]))));
  process.exit(0);
}
