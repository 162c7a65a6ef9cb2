/**
 * gRPC channels side by side on the same pods: evenkeel against grpc-js's own round_robin, and pick_first for the ground
 * everything stands on; and what a local proxy makes of the same calls.
 *
 *   node --expose-gc test/bench/grpc.bench.mjs [--quick]
 */
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { startChild } from './lib/children.mjs';
import { closedLoop } from './lib/closed-loop.mjs';
import { missingProxies, proxyVersions, startProxies } from './lib/proxies.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';
import { table } from './lib/table.mjs';

const QUICK = process.argv.includes('--quick');
const ROUNDS = QUICK ? 8 : MIN_ROUNDS;
const VISITS = QUICK ? 1 : 3;
const WARM_UP = 5;
const PODS = 4;
const CONCURRENCY = 32;
const CALLS = 3_000;
const SPREAD_CALLS = QUICK ? 4_000 : 100_000;
const REQUEST = Buffer.alloc(100, 'x');

const pods = await Promise.all(Array.from({ length: PODS }, (_, index) => startChild('grpc-pod.mjs', [String(index)])));
const addresses = pods.map(({ port }) => `127.0.0.1:${port}`);
const proxies = await startProxies(
  pods.map(({ port }) => ({ address: '127.0.0.1', port })),
  'grpc',
);
const insecure = credentials.createInsecure();
const ours = (/** @type {import('evenkeel/grpc-js').GrpcOptions} */ options) => {
  const resolver = staticEndpoints(pods.map(({ port }) => ({ address: '127.0.0.1', port })));
  return new Client(serviceTarget('orders.shop:50051'), insecure, serviceChannelOptions({ resolver, ...options }));
};
const stock = (/** @type {string} */ policy, /** @type {readonly string[]} */ at = addresses) =>
  new Client(`ipv4:${at.join(',')}`, insecure, {
    'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ [policy]: {} }] }),
    'grpc.enable_http_proxy': 0,
  });

/** Calls per pod, of the last subject. */
const perPod = new Array(PODS).fill(0);
const same = (/** @type {Buffer} */ bytes) => bytes;
/** @param {Client} client @returns {() => Promise<void>} */
const unary = (client) => () =>
  new Promise((resolve, reject) => {
    client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, REQUEST, new Metadata(), {}, (error, answer) => {
      if (error) return reject(error);
      perPod[Number(answer?.[0])]++;
      resolve();
    });
  });

const ROUND_ROBIN = 'grpc-js round_robin';
const OURS = 'evenkeel, roundRobin()';
const OURS_DEFAULT = 'evenkeel, as it comes: p2c()';
const PICK_FIRST = 'grpc-js pick_first';
/** @type {Record<string, Client>} */
const clients = {
  [ROUND_ROBIN]: stock('round_robin'),
  [OURS]: ours({ picker: roundRobin() }),
  [OURS_DEFAULT]: ours({}),
  [PICK_FIRST]: stock('pick_first'),
};
const proxied = proxies.map(({ name, port }) => {
  const row = `grpc-js pick_first, through ${name}`;
  clients[row] = stock('pick_first', [`127.0.0.1:${port}`]);
  return row;
});
for (const note of missingProxies) process.stderr.write(`grpc: ${note}\n`);
/**
 * The collection of garbage before each round would otherwise find no call alive, and V8 forgets what it has learnt of
 * objects of which there is none. In a process at work some call is always under way.
 */
for (const client of Object.values(clients)) {
  client.makeUnaryRequest('/shop.v1.Orders/Hang', same, same, REQUEST, new Metadata(), {}, () => {});
}

const subject = (/** @type {string} */ name) => {
  const call = unary(/** @type {Client} */ (clients[name]));
  return { name, run: () => closedLoop(call, { requests: CALLS, concurrency: CONCURRENCY }) };
};

const results = await measure({
  baseline: subject(ROUND_ROBIN),
  subjects: [OURS, OURS_DEFAULT, PICK_FIRST, ...proxied].map(subject),
  rounds: ROUNDS,
  visits: VISITS,
  warmUp: WARM_UP,
});

/** Every channel is warm by now: how evenly do they spread? */
const spread = [];
for (const name of Object.keys(clients)) {
  perPod.fill(0);
  await closedLoop(unary(/** @type {Client} */ (clients[name])), { requests: SPREAD_CALLS, concurrency: CONCURRENCY });
  spread.push([name, (Math.max(...perPod) / (SPREAD_CALLS / PODS)).toFixed(4), perPod.map(String).join(' ')]);
}

console.log(`## gRPC: unary calls

${PODS} pods as processes of their own, one connection to each, ${CONCURRENCY} callers, a request of 100 bytes and an answer of 250.
${CALLS.toLocaleString('en-US')} calls a visit, ${results.rounds} interleaved rounds of ${VISITS} visits after ${WARM_UP} to warm up. Each channel has one more call that stays
open, as a channel in use has. pick_first has all its calls on one connection: to one pod, or to a proxy, whose own CPU is
not counted${proxyVersions.length > 0 ? ` (${proxyVersions.join(', ')})` : ''}.

${[...missingProxies.map((note) => `${note}.`), figureTable(results, [ROUND_ROBIN, OURS, OURS_DEFAULT, PICK_FIRST, ...proxied])].join('\n\n')}

${ratioTable(results, [
  { name: OURS, against: ROUND_ROBIN, figure: 'perSecond', atLeast: 0.97 },
  { name: OURS, against: ROUND_ROBIN, figure: 'cpuUs', atMost: 1.05 },
  { name: OURS_DEFAULT, against: ROUND_ROBIN, figure: 'perSecond', atLeast: 0.97 },
  { name: OURS_DEFAULT, against: ROUND_ROBIN, figure: 'cpuUs', atMost: 1.05 },
  ...proxied.flatMap(
    (proxy) =>
      /** @type {const} */ ([
        { name: OURS_DEFAULT, against: proxy, figure: 'perSecond', atLeast: 1 },
        { name: OURS_DEFAULT, against: proxy, figure: 'p99', atMost: 1 },
      ]),
  ),
])}

Spread over ${SPREAD_CALLS.toLocaleString('en-US')} calls:

${table(['channel', 'max / mean', 'calls per pod'], spread, [2])}
`);

for (const client of Object.values(clients)) client.close();
for (const proxy of proxies) await proxy.stop();
for (const pod of pods) pod.stop();
