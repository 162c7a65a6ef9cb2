/**
 * How long the first request of a process takes, with the permission to watch EndpointSlices and without it: one process
 * after the other, each in a pod of its own making, against an API server over TLS, a DNS server and three pods. The time
 * runs from before the client is made to the end of the answer; loading the package is not counted.
 *
 *   node --expose-gc test/bench/first-answer.bench.mjs [--quick]
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createApiServer, createDnsServer } from '../servers/index.js';
import { table } from './lib/table.mjs';

const PROCESSES = process.argv.includes('--quick') ? 5 : 40;
const PODS = ['127.0.1.1', '127.0.1.2', '127.0.1.3'];
const CLUSTER_IP = '127.0.0.77';
const token = 'pod-token';
const client = fileURLToPath(new URL('./lib/first-answer-client.mjs', import.meta.url));

/** @type {any} */
const reader = [{ namespace: 'shop', verbs: ['list', 'watch', 'get'], resources: ['endpointslices', 'services'] }];
const cases = [
  { name: 'permission', grants: reader, kind: 'cluster IP' },
  { name: 'no permission', grants: [], kind: 'headless' },
  { name: 'no permission', grants: [], kind: 'cluster IP' },
];

const server = createServer((_request, response) => response.end('ok'));
await new Promise((resolve) => server.listen(0, '0.0.0.0', () => resolve(undefined)));
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
const api = await createApiServer({ tls: true, tokens: {} });
const dns = await createDnsServer();
const folder = await mkdtemp(join(tmpdir(), 'evenkeel-pod-'));
await writeFile(join(folder, 'token'), token);
await writeFile(join(folder, 'ca.crt'), api.ca ?? '');
await writeFile(join(folder, 'namespace'), 'web');
api
  .service('shop', 'orders', { ports: [{ name: 'http', port }] })
  .setPods(PODS.map((address) => ({ name: address, address })));

/** @param {string} kind */
function showInDns(kind) {
  const service = { namespace: 'shop', name: 'orders', ports: [{ name: 'http', port }] };
  if (kind === 'headless') dns.kubernetes.set({ ...service, pods: PODS.map((address) => ({ address })) });
  else dns.kubernetes.set({ ...service, clusterIPs: [CLUSTER_IP] });
}

/** @returns {Promise<number>} */
async function firstAnswerMs() {
  const world = { port, folder, apiPort: api.port, dns: dns.address };
  const child = spawn(process.execPath, [client, JSON.stringify(world)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`the client ended with ${code}`);
  return JSON.parse(text).firstMs;
}

/** @type {number[][]} */
const times = cases.map(() => []);
// In turns, so that all have the same share of what else the machine does.
for (let run = 0; run < PROCESSES; run++) {
  for (const [index, { grants, kind }] of cases.entries()) {
    api.setTokens({ [token]: grants });
    showInDns(kind);
    times[index]?.push(await firstAnswerMs());
  }
}
const rows = cases.map(({ name, kind }, index) => {
  const sorted = (times[index] ?? []).sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => `${Math.round(sorted[Math.floor(share * (sorted.length - 1))] ?? 0)} ms`;
  return [name, kind, at(0), at(0.5), at(1)];
});
server.close();
server.closeAllConnections();
await Promise.all([api.close(), dns.close(), rm(folder, { recursive: true })]);

console.log(`## The first answer of a process

${PROCESSES} processes a row, each making one request. Without the permission DNS is asked as soon as the API server refuses.

${table(['API server', 'Service', 'fastest', 'median', 'slowest'], rows)}
`);
