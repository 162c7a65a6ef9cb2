/**
 * The global fetch with evenkeel under it, against the global fetch as it is. Apart from the other HTTP clients: fetch
 * makes so much garbage that it would disturb them.
 *
 *   node --expose-gc test/bench/fetch.bench.mjs [--quick]
 */
import { staticEndpoints } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';
import { Agent } from 'undici';
import { closedLoop } from './lib/closed-loop.mjs';
import { startPods } from './lib/pods.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';

const ROUNDS = process.argv.includes('--quick') ? 8 : MIN_ROUNDS;
const WARM_UP = 5;
const PODS = 4;
const CONNECTIONS_PER_POD = 8;
const CONCURRENCY = PODS * CONNECTIONS_PER_POD;
const REQUESTS = 3_000;
const SERVICE = 'http://orders.shop:8080';
const PATH = '/v1/orders/42';

const pods = await startPods(PODS);
const ours = createFetch(SERVICE, {
  resolver: staticEndpoints(pods.ports.map((port) => ({ address: '127.0.0.1', port }))),
  connections: CONNECTIONS_PER_POD,
});
const agent = new Agent({ connections: CONCURRENCY, connect: pods.asKubeProxy });
const url = `${SERVICE}${PATH}`;

const subject = (/** @type {string} */ name, /** @type {() => Promise<Response>} */ call) => ({
  name,
  run: () => closedLoop(async () => (await call()).arrayBuffer(), { requests: REQUESTS, concurrency: CONCURRENCY }),
});

const PLAIN = 'global fetch, balanced per connection';
const OURS = 'evenkeel';

const results = await measure({
  baseline: subject(PLAIN, () => fetch(url, /** @type {any} */ ({ dispatcher: agent }))),
  subjects: [subject(OURS, () => ours(url))],
  rounds: ROUNDS,
  warmUp: WARM_UP,
});

console.log(`## fetch

As above, through the global \`fetch\` of this Node and \`arrayBuffer()\`; ${REQUESTS.toLocaleString('en-US')} requests a round, ${results.rounds} rounds after ${WARM_UP} to warm up. Without us: an
undici Agent of ${CONCURRENCY} connections, balanced per connection.

${figureTable(results, [PLAIN, OURS])}

${ratioTable(results, [
  { name: OURS, against: PLAIN, figure: 'perSecond', atLeast: 1 },
  { name: OURS, against: PLAIN, figure: 'cpuUs', atMost: 1.05 },
])}
`);

await Promise.all([ours.close(), agent.close()]);
pods.stop();
