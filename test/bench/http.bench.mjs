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
import { Agent, BalancedPool, buildConnector, Pool, RoundRobinPool } from 'undici';
import { startChild } from './lib/children.mjs';
import { closedLoop } from './lib/closed-loop.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';
import { grouped, table, withInterval } from './lib/table.mjs';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 8 : MIN_ROUNDS;
const PODS = 4;
const CONNECTIONS_PER_POD = 8;
const CONCURRENCY = PODS * CONNECTIONS_PER_POD;
const size = { requests: quick ? 4_000 : 8_000, concurrency: CONCURRENCY };
const SERVICE = 'http://orders.shop:8080';
const PATH = '/v1/orders/42';

const pods = await Promise.all(Array.from({ length: PODS }, () => startChild('pod.mjs')));
const podOrigins = pods.map(({ port }) => `http://127.0.0.1:${port}`);

/** What kube-proxy does, at no cost to anybody: a pod at random for every connection, for good. */
const anyPort = () => Number(pods[Math.floor(Math.random() * PODS)]?.port);
const connector = buildConnector({});
const asKubeProxy = /** @type {import('undici').buildConnector.connector} */ (
  (options, callback) => connector({ ...options, hostname: '127.0.0.1', port: String(anyPort()) }, callback)
);

const ours = createDispatcher(SERVICE, {
  resolver: staticEndpoints(pods.map(({ port }) => ({ address: '127.0.0.1', port }))),
  connections: CONNECTIONS_PER_POD,
});
const handPools = podOrigins.map((origin) => new Pool(origin, { connections: CONNECTIONS_PER_POD }));
const balancedPool = new BalancedPool(podOrigins, { connections: CONNECTIONS_PER_POD });
const roundRobinPool = new RoundRobinPool(SERVICE, { connections: CONCURRENCY, connect: asKubeProxy });
const servicePool = new Pool(SERVICE, { connections: CONCURRENCY, connect: asKubeProxy });
const fetchAgent = new Agent({ connections: CONCURRENCY, connect: asKubeProxy });
const httpAgent = new HttpAgent({ keepAlive: true, maxSockets: CONCURRENCY });
httpAgent.createConnection = () => connectSocket({ host: '127.0.0.1', port: anyPort(), noDelay: true });

/** One request through anything that has undici's `request`, in the same call style for all. */
const through = (/** @type {import('undici').Dispatcher} */ dispatcher, /** @type {string | undefined} */ origin) => {
  const options = { origin, path: PATH, method: 'GET' };
  return async () => {
    const { statusCode, body } = await dispatcher.request(/** @type {any} */ (options));
    if (statusCode !== 200) throw new Error(`status ${statusCode}`);
    await body.dump();
  };
};
const byHand = handPools.map((pool) => through(pool, undefined));
let turn = 0;

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

/** As undici's `fetch` in Node itself, to the end of the body. */
const fetching = (/** @type {string} */ url, /** @type {object} */ init) => async () => {
  const response = await fetch(url, init);
  await response.arrayBuffer();
};

/** `fetch` costs some five times as much per request: fewer of them make a round as long. */
const fetchSize = { ...size, requests: size.requests / 4 };
const subject = (/** @type {string} */ name, /** @type {() => Promise<unknown>} */ call, how = size) => ({
  name,
  run: () => closedLoop(call, how),
});

const HAND = 'loop over one undici Pool per pod';
const OURS = 'evenkeel, createDispatcher';
const BALANCED = 'undici BalancedPool';
const ROUND_ROBIN = 'undici RoundRobinPool, balanced per connection';
const ONE_POOL = 'undici Pool, balanced per connection';
const NODE_HTTP = 'node:http keep-alive Agent, balanced per connection';
const OUR_FETCH = 'evenkeel, global fetch';
const PLAIN_FETCH = 'global fetch, balanced per connection';

const results = await measure({
  baseline: subject(HAND, () => /** @type {() => Promise<void>} */ (byHand[turn++ % PODS])()),
  subjects: [
    subject(OURS, through(ours, SERVICE)),
    subject(BALANCED, through(balancedPool, undefined)),
    subject(ROUND_ROBIN, through(roundRobinPool, undefined)),
    subject(ONE_POOL, through(servicePool, undefined)),
    subject(NODE_HTTP, withAgent),
    subject(OUR_FETCH, fetching(`${SERVICE}${PATH}`, { dispatcher: ours }), fetchSize),
    subject(PLAIN_FETCH, fetching(`${SERVICE}${PATH}`, { dispatcher: fetchAgent }), fetchSize),
  ],
  rounds: ROUNDS,
  progress: (round, rounds) => process.stderr.write(`\rhttp: round ${round} of ${rounds} `),
});
process.stderr.write('\r');

const names = [HAND, OURS, BALANCED, ROUND_ROBIN, ONE_POOL, NODE_HTTP, OUR_FETCH, PLAIN_FETCH];
const figures = names.map((name) => [
  name,
  grouped(results.median(name, 'perSecond')),
  results.median(name, 'cpuUs').toFixed(1),
  results.median(name, 'p50').toFixed(2),
  results.median(name, 'p99').toFixed(2),
]);

/** @type {readonly [string, string, 'perSecond' | 'cpuUs', { atLeast?: number, atMost?: number }][]} */
const wanted = [
  [OURS, HAND, 'perSecond', { atLeast: 0.97 }],
  [OURS, HAND, 'cpuUs', { atMost: 1.05 }],
  [OURS, BALANCED, 'perSecond', { atLeast: 0.97 }],
  [OURS, BALANCED, 'cpuUs', { atMost: 1.05 }],
  [OURS, ROUND_ROBIN, 'perSecond', { atLeast: 1 }],
  [OURS, NODE_HTTP, 'perSecond', { atLeast: 1 }],
  [OUR_FETCH, PLAIN_FETCH, 'perSecond', { atLeast: 1 }],
];
const words = { perSecond: 'requests/s', cpuUs: 'client CPU per request' };
const verdicts = wanted.map(([name, against, figure, limit]) => [
  `${name} : ${against}`,
  words[figure],
  limit.atLeast === undefined ? `≤ ${limit.atMost?.toFixed(2)}` : `≥ ${limit.atLeast.toFixed(2)}`,
  withInterval(results.ratio(name, figure, against)),
  results.verdict(name, figure, limit, against),
]);
for (const figure of /** @type {const} */ (['perSecond', 'cpuUs'])) {
  verdicts.push(['A/A: the loop against itself', words[figure], '1 ± 0.03', withInterval(results.aa(figure)), '']);
}

console.log(`## HTTP: throughput and CPU

${PODS} pods as processes of their own, ${CONNECTIONS_PER_POD} connections to each (${CONCURRENCY} in all for clients with one address), ${CONCURRENCY} callers, GET with a
body of about 250 bytes, ${size.requests.toLocaleString('en-US')} requests a round (a quarter for fetch), ${results.rounds} interleaved rounds. "Balanced per connection": one address, and a pod at random
for every connection when it opens, as kube-proxy does; here the connector does it, so that it costs nothing.

${table(['median', 'requests/s', 'CPU µs/request', 'p50 ms', 'p99 ms'], figures)}

${table(['ratio', 'of', 'wanted', 'measured', 'verdict'], verdicts, [1, 4])}
`);

const clients = [ours, ...handPools, balancedPool, roundRobinPool, servicePool, fetchAgent];
await Promise.all(clients.map((client) => client.close()));
httpAgent.destroy();
for (const pod of pods) pod.stop();
