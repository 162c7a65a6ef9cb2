// @ts-check
/**
 * 3,000 requests by the fetch of Node, 50 at a time, over https to a Service with five pods that speak HTTP/2 and HTTP/1.1: how many
 * does the busiest pod get? First as in any program, through what stands for kube-proxy (each connection goes to a random pod), then
 * through evenkeel, over HTTP/1.1 and over HTTP/2, also in the clear. A line says what was spoken, requests per second, and the requests of each pod.
 *
 *   node examples/http2-pins/main.js            with this Node
 *   node examples/http2-pins/main.js <node> …   with other Nodes, by the path of their program
 *     --requests=600                            with fewer requests
 */
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createClearServer, createSecureServer } from 'node:http2';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createCertificate } from '../../test/servers/index.js';

const PODS = 5;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { requests: { type: 'string', default: '3000' } },
});
const nodes = positionals.length > 0 ? positionals : [process.execPath];
const certificate = createCertificate({ hosts: ['localhost'] });

/** @param {import('node:net').Server} server */
async function listening(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return /** @type {import('node:net').AddressInfo} */ (server.address()).port;
}

/** @param {number} index @returns {(request: { httpVersion: string }, response: { end(text: string): void }) => void} */
const pod =
  (index) =>
  ({ httpVersion }, response) =>
    response.end(`pod-${index + 1} ${httpVersion}`);
const pods = Array.from({ length: PODS }, (_, index) =>
  createSecureServer({ ...certificate, allowHTTP1: true }, pod(index)),
);
/** The same pods on another port, which speaks HTTP/2 without TLS and nothing else. */
const clearPods = Array.from({ length: PODS }, (_, index) => createClearServer(pod(index)));
const ports = await Promise.all(pods.map(listening));
const clearPorts = await Promise.all(clearPods.map(listening));
/** What stands for kube-proxy: it knows connections, and draws a pod for each. */
const service = createServer((client) => {
  const server = connect(/** @type {number} */ (ports[Math.floor(Math.random() * PODS)]), '127.0.0.1');
  client.pipe(server).pipe(client);
  client.on('error', () => server.destroy());
  server.on('error', () => client.destroy());
});
const servicePort = await listening(service);

const folder = mkdtempSync(join(tmpdir(), 'evenkeel-http2-pins-'));
const ca = join(folder, 'ca.pem');
writeFileSync(ca, certificate.cert);

/**
 * @typedef {{ node: string, versions: string[], counts: Record<string, number>, perSecond: number }} Result
 * @param {string} node
 * @param {string} how
 * @returns {Promise<Result | undefined>} undefined if this Node cannot
 */
async function run(node, how) {
  const child = fork(
    fileURLToPath(new URL('client.js', import.meta.url)),
    [how, String(servicePort), (how.includes('in the clear') ? clearPorts : ports).join(), values.requests],
    { execPath: node, env: { ...process.env, NODE_EXTRA_CA_CERTS: ca } },
  );
  return new Promise((resolve) => {
    child.once('message', (result) => resolve(/** @type {Result} */ (result)));
    child.once('exit', () => resolve(undefined));
  });
}

const clients = [
  'stock',
  'evenkeel',
  'evenkeel, roundRobin()',
  // With undici 8.10, which needs Node 22.
  'evenkeel, HTTP/2',
  'evenkeel, HTTP/2, roundRobin()',
  'evenkeel, HTTP/2 in the clear',
  'evenkeel, HTTP/2 in the clear, roundRobin()',
];
let failed = false;
for (const node of nodes) {
  const canHttp2 =
    Number(execFileSync(node, ['-p', 'process.versions.node'], { encoding: 'utf8' }).split('.')[0]) >= 22;
  for (const how of clients.filter((client) => canHttp2 || !client.includes('HTTP/2'))) {
    const result = await run(node, how);
    if (result === undefined) {
      failed = true;
      continue;
    }
    const { versions, counts, perSecond } = result;
    const shares = Object.values(counts).sort((a, b) => b - a);
    const all = Array.from({ length: PODS }, (_, index) => String(shares[index] ?? 0).padStart(5));
    const spoken = `HTTP/${versions.join('+')}`;
    console.log(
      `Node ${result.node.padEnd(9)} ${how.padEnd(43)} ${spoken.padEnd(9)} ${perSecond.toFixed(0).padStart(6)}/s ${all.join(' ')}`,
    );
  }
}
service.close();
for (const server of [...pods, ...clearPods]) server.close();
rmSync(folder, { recursive: true });
process.exit(failed ? 1 : 0);
