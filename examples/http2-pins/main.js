// @ts-check
/**
 * 3,000 requests by the fetch of Node, 50 at a time, over https to a Service with five pods that speak HTTP/2 and HTTP/1.1: how many
 * does the busiest pod get? First as in any program, through what stands for kube-proxy (each connection goes to a random pod), then
 * through evenkeel.
 *
 *   node examples/http2-pins/main.js            with this Node
 *   node examples/http2-pins/main.js <node> …   with other Nodes, by the path of their program
 *     --requests=600                            with fewer requests
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createCertificate } from 'evenkeel/testing/servers';

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

const pods = Array.from({ length: PODS }, (_, index) =>
  createSecureServer({ ...certificate, allowHTTP1: true }, (_request, response) => response.end(`pod-${index + 1}`)),
);
const ports = await Promise.all(pods.map(listening));
/** What stands for kube-proxy: it knows connections, and draws a pod for each. */
const service = createServer((client) => {
  const pod = connect(/** @type {number} */ (ports[Math.floor(Math.random() * PODS)]), '127.0.0.1');
  client.pipe(pod).pipe(client);
  client.on('error', () => pod.destroy());
  pod.on('error', () => client.destroy());
});
const servicePort = await listening(service);

const folder = mkdtempSync(join(tmpdir(), 'evenkeel-http2-pins-'));
const ca = join(folder, 'ca.pem');
writeFileSync(ca, certificate.cert);

/** @param {string} node @param {string} how @returns {Promise<{ version: string, counts: Record<string, number> }>} */
async function run(node, how) {
  const child = fork(
    fileURLToPath(new URL('client.js', import.meta.url)),
    [how, String(servicePort), ports.join(), values.requests],
    {
      execPath: node,
      env: { ...process.env, NODE_EXTRA_CA_CERTS: ca },
    },
  );
  const [result] = await once(child, 'message');
  return result;
}

for (const node of nodes) {
  for (const how of ['stock', 'evenkeel', 'evenkeel, roundRobin()']) {
    const { version, counts } = await run(node, how);
    const shares = Object.values(counts).sort((a, b) => b - a);
    const all = Array.from({ length: PODS }, (_, index) => shares[index] ?? 0);
    console.log(
      `Node ${version.padEnd(9)} ${how.padEnd(23)} ${all.map((share) => String(share).padStart(5)).join(' ')}`,
    );
  }
}
service.close();
for (const pod of pods) pod.close();
rmSync(folder, { recursive: true });
process.exit();
