/**
 * HTTP clients side by side on the same pods: evenkeel against a hand-written loop over one bare undici Pool per pod,
 * undici's own pools, and what people have today (one address that balances per connection).
 *
 *   node --expose-gc test/bench/http.bench.mjs [--quick]
 */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { connect as connectSocket } from 'node:net';
import { staticEndpoints } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';
import { BalancedPool, Pool, RoundRobinPool } from 'undici';
import { closedLoop } from './lib/closed-loop.mjs';
import { startPods } from './lib/pods.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';

const ROUNDS = process.argv.includes('--quick') ? 8 : MIN_ROUNDS;
const WARM_UP = 5;
const PODS = 4;
const CONNECTIONS_PER_POD = 8;
const CONCURRENCY = PODS * CONNECTIONS_PER_POD;
const REQUESTS = 8_000;
const SERVICE = 'http://orders.shop:8080';
const PATH = '/v1/orders/42';

const pods = await startPods(PODS);
const ours = createDispatcher(SERVICE, {
  resolver: staticEndpoints(pods.ports.map((port) => ({ address: '127.0.0.1', port }))),
  connections: CONNECTIONS_PER_POD,
});
const handPools = pods.origins.map((origin) => new Pool(origin, { connections: CONNECTIONS_PER_POD }));
const balancedPool = new BalancedPool(pods.origins, { connections: CONNECTIONS_PER_POD });
const roundRobinPool = new RoundRobinPool(SERVICE, { connections: CONCURRENCY, connect: pods.asKubeProxy });
const servicePool = new Pool(SERVICE, { connections: CONCURRENCY, connect: pods.asKubeProxy });
const httpAgent = new HttpAgent({ keepAlive: true, maxSockets: CONCURRENCY });
httpAgent.createConnection = () => connectSocket({ host: '127.0.0.1', port: pods.anyPort(), noDelay: true });

/** One request through anything that has undici's `request`, in the same call style for all. */
const through = (/** @type {import('undici').Dispatcher} */ dispatcher, /** @type {string | undefined} */ origin) => {
  const options = { origin, path: PATH, method: 'GET' };
  return async () => {
    const { statusCode, body } = await dispatcher.request(/** @type {any} */ (options));
    if (statusCode !== 200) throw new Error(`status ${statusCode}`);
    await body.dump();
  };
};
const handCalls = handPools.map((pool) => through(pool, undefined));
let turn = 0;
const byHand = async () => await handCalls[turn++ % PODS]?.();

/** node:http in its plainest form. */
const withAgent = () =>
  new Promise((resolve, reject) => {
    const options = { agent: httpAgent, host: 'orders.shop', port: 8080, path: PATH };
    httpRequest(options, (response) => {
      response.resume();
      response.on('end', resolve);
    })
      .on('error', reject)
      .end();
  });

const subject = (/** @type {string} */ name, /** @type {() => Promise<unknown>} */ call) => ({
  name,
  run: () => closedLoop(call, { requests: REQUESTS, concurrency: CONCURRENCY }),
});

const HAND = 'loop over one undici Pool per pod';
const OURS = 'evenkeel';
const BALANCED = 'undici BalancedPool';
const ROUND_ROBIN = 'undici RoundRobinPool, balanced per connection';
const ONE_POOL = 'undici Pool, balanced per connection';
const NODE_HTTP = 'node:http keep-alive Agent, balanced per connection';

const results = await measure({
  baseline: subject(HAND, byHand),
  subjects: [
    subject(OURS, through(ours, SERVICE)),
    subject(BALANCED, through(balancedPool, undefined)),
    subject(ROUND_ROBIN, through(roundRobinPool, undefined)),
    subject(ONE_POOL, through(servicePool, undefined)),
    subject(NODE_HTTP, withAgent),
  ],
  rounds: ROUNDS,
  warmUp: WARM_UP,
});

console.log(`## HTTP: throughput and CPU

${PODS} pods as processes of their own, ${CONNECTIONS_PER_POD} connections to each (${CONCURRENCY} in all for clients with one address), ${CONCURRENCY} callers. GET with a
body of about 250 bytes, \`dispatcher.request\` and \`body.dump\` for all but node:http. ${REQUESTS.toLocaleString('en-US')} requests a round, ${results.rounds} interleaved
rounds after ${WARM_UP} to warm up. "Balanced per connection": one address, and a pod at random for every connection when it opens, as
kube-proxy does; here the connector does it, so that it costs nothing.

${figureTable(results, [HAND, OURS, BALANCED, ROUND_ROBIN, ONE_POOL, NODE_HTTP])}

${ratioTable(results, [
  { name: OURS, against: HAND, figure: 'perSecond', atLeast: 0.97 },
  { name: OURS, against: HAND, figure: 'cpuUs', atMost: 1.05 },
  { name: OURS, against: BALANCED, figure: 'perSecond', atLeast: 0.97 },
  { name: OURS, against: BALANCED, figure: 'cpuUs', atMost: 1.05 },
  { name: OURS, against: ROUND_ROBIN, figure: 'perSecond', atLeast: 1 },
  { name: OURS, against: NODE_HTTP, figure: 'perSecond', atLeast: 1 },
])}
`);

await Promise.all([ours, ...handPools, balancedPool, roundRobinPool, servicePool].map((client) => client.close()));
httpAgent.destroy();
pods.stop();
