/**
 * What clients cost an API server, per Service: bytes of a list, of a streaming list and of one change; connections and memory of a
 * client with 1 to 20 Services, over HTTP/1.1 and in one HTTP/2 connection.
 * The API server is `test/servers`, over TLS where memory is measured.
 *
 *   node --expose-gc test/bench/api-server.bench.mjs [--quick]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { createSecureServer } from 'node:http2';
import { fileURLToPath } from 'node:url';
import { createApiServer, createCertificate } from '../servers/index.js';
import { table } from './lib/table.mjs';

const isQuick = process.argv.includes('--quick');
const ports = [{ name: 'http', port: 80, targetPort: 8080 }];
const path =
  '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dorders';
const number = (/** @type {number} */ value) => Math.round(value).toLocaleString('en-US');
const kib = (/** @type {number} */ bytes) => (bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0);

/** @param {number} count */
const podsOf = (count) =>
  Array.from({ length: count }, (_, index) => ({
    name: `orders-7c9f8d6b5-${index.toString(36).padStart(5, '0')}`,
    address: `10.${64 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`,
    zone: `eu-central-1${'abc'[index % 3]}`,
    nodeName: `ip-10-0-${index % 50}-17.eu-central-1.compute.internal`,
  }));

/**
 * Bytes of a body, up to `until` if that is given.
 * @param {string} url @param {Record<string, string>} headers @param {string} [until]
 * @returns {Promise<{ bytes: number, response: import('node:http').IncomingMessage }>}
 */
function read(url, headers, until) {
  return new Promise((resolve, reject) => {
    get(url, { headers }, (response) => {
      let bytes = 0;
      let tail = '';
      response.on('data', (/** @type {Buffer} */ chunk) => {
        bytes += chunk.length;
        if (until === undefined) return;
        tail = (tail + chunk.toString('latin1')).slice(-4_096);
        if (tail.includes(until)) resolve({ bytes, response });
      });
      response.on('end', () => resolve({ bytes, response }));
      response.on('error', () => {});
    }).on('error', reject);
  });
}

/** @param {number} pods */
async function sizes(pods) {
  const api = await createApiServer();
  const service = api.service('shop', 'orders', { ports });
  const all = podsOf(pods);
  service.setPods(all);
  const list = await read(`${api.url}${path}&resourceVersion=0`, {});
  const packed = await read(`${api.url}${path}&resourceVersion=0`, { 'accept-encoding': 'gzip' });
  const streaming = `${api.url}${path}&watch=true&resourceVersion=0&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true`;
  const stream = await read(streaming, {}, 'initial-events-end');
  let event = 0;
  stream.response.on('data', (/** @type {Buffer} */ chunk) => {
    event += chunk.length;
  });
  service.setPods(all.map((pod, index) => ({ ...pod, ready: index !== 0 })));
  while (event === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await new Promise((resolve) => setTimeout(resolve, 100));
  stream.response.destroy();
  await api.close();
  return [number(pods), kib(list.bytes), kib(packed.bytes), kib(stream.bytes), kib(event)];
}

/** @param {object} task */
async function client(task) {
  const file = fileURLToPath(new URL('lib/api-clients-client.mjs', import.meta.url));
  const child = fork(file, [JSON.stringify(task)], { execArgv: ['--expose-gc'] });
  const [memory] = await once(child, 'message');
  return { child, memory: /** @type {{ rss: number, heapUsed: number, external: number }} */ (memory) };
}

async function connections() {
  const certificate = createCertificate();
  const api = await createApiServer({ tls: certificate });
  for (let index = 0; index < 20; index++) api.service('shop', `orders-${index}`, { ports }).setPods(podsOf(100));
  const body = JSON.stringify(api.slices.list()[0]);
  let sessions = 0;
  const one = createSecureServer({ ...certificate });
  one.on('session', () => {
    sessions += 1;
  });
  one.on('stream', (stream) => {
    stream.on('error', () => {});
    stream.respond({ ':status': 200 });
    stream.write(body);
  });
  await new Promise((resolve) => one.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (one.address());
  const rows = [];
  for (const services of [0, 1, 5, 20]) {
    for (const http2 of services === 0 ? [false] : [false, true]) {
      const before = sessions;
      const apiServer = http2 ? `https://127.0.0.1:${port}` : api.url;
      /** @type {number[]} */
      const rss = [];
      let opened = 0;
      for (let round = 0; round < (isQuick ? 1 : 3); round++) {
        const { child, memory } = await client({ services, apiServer, ca: certificate.cert, http2 });
        rss.push(memory.rss);
        opened = http2 ? (sessions - before) / (round + 1) : api.counts.openConnections;
        const exited = once(child, 'exit');
        child.disconnect();
        await exited;
      }
      rss.sort((a, b) => a - b);
      const middle = /** @type {number} */ (rss[Math.floor(rss.length / 2)]);
      rows.push([
        `${services}, ${http2 ? 'bare HTTP/2 streams' : 'evenkeel, HTTP/1.1'}`,
        String(opened),
        (middle / 1_048_576).toFixed(1),
      ]);
    }
  }
  one.close();
  await api.close();
  return rows;
}

console.log('## What clients cost an API server\n');
console.log('One Service, pods in slices of at most 100, in KiB:\n');
const bySize = [];
for (const pods of isQuick ? [10, 100] : [10, 100, 1_000, 5_000]) bySize.push(await sizes(pods));
console.log(`${table(['pods', 'list', 'list, gzip', 'streaming list', 'one pod changes'], bySize)}\n`);
console.log('A client and its Services, 100 pods each, over TLS (median of three processes):\n');
console.log(`${table(['Services', 'connections', 'memory of the process, MiB'], await connections())}\n`);
