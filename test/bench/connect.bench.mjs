/**
 * Unary calls of Connect to one pod: evenkeel's session manager against connect-node's own.
 *
 *   node --expose-gc test/bench/connect.bench.mjs [--quick]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node';
import { createSessionManager } from 'evenkeel/http2';
import { Orders } from '../support/pods/orders-service.mjs';
import { closedLoop } from './lib/closed-loop.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';

const QUICK = process.argv.includes('--quick');
const ROUNDS = QUICK ? 2 : MIN_ROUNDS;
const WARM_UP = QUICK ? 2 : 4;
const CONCURRENCY = 32;
const CALLS = QUICK ? 1_000 : 2_000;

const pod = fork(new URL('../support/pods/connect-pod.mjs', import.meta.url), [JSON.stringify({ name: 'pod' })]);
/** @type {[{ port: number }]} */
const [{ port }] = await /** @type {Promise<any>} */ (once(pod, 'message'));
const baseUrl = `http://127.0.0.1:${port}`;
const sessionManager = createSessionManager(baseUrl);
const options = /** @type {const} */ ({ baseUrl, httpVersion: '2' });

const STOCK = 'connect-node, Connect';
const OURS = 'evenkeel, Connect';
const STOCK_GRPC = 'connect-node, gRPC';
const OURS_GRPC = 'evenkeel, gRPC';
const transports = {
  [STOCK]: createConnectTransport(options),
  [OURS]: createConnectTransport({ ...options, sessionManager }),
  [STOCK_GRPC]: createGrpcTransport(options),
  [OURS_GRPC]: createGrpcTransport({ ...options, sessionManager }),
};

const subject = (/** @type {keyof typeof transports} */ name) => {
  const orders = createClient(Orders, transports[name]);
  const call = async () => {
    await orders.say({ value: 'hello' });
  };
  return { name, run: () => closedLoop(call, { requests: CALLS, concurrency: CONCURRENCY }) };
};

const results = await measure({
  baseline: subject(STOCK),
  subjects: [OURS, STOCK_GRPC, OURS_GRPC].map((name) => subject(/** @type {keyof typeof transports} */ (name))),
  rounds: ROUNDS,
  warmUp: WARM_UP,
  progress: (round) => process.stderr.write(`connect: ${round > 0 ? `round ${round} of ${ROUNDS}` : 'warming up'}\n`),
});

console.log(`## Connect: unary calls

One pod as a process of its own, one session, ${CONCURRENCY} callers. ${CALLS.toLocaleString('en-US')} calls per round and row, ${results.rounds} interleaved rounds after ${WARM_UP} to warm up.

${figureTable(results, [STOCK, OURS, STOCK_GRPC, OURS_GRPC])}

${ratioTable(results, [
  { name: OURS, against: STOCK, figure: 'perSecond', atLeast: 0.98 },
  { name: OURS, against: STOCK, figure: 'cpuUs', atMost: 1.03 },
  { name: OURS_GRPC, against: STOCK_GRPC, figure: 'perSecond', atLeast: 0.98 },
  { name: OURS_GRPC, against: STOCK_GRPC, figure: 'cpuUs', atMost: 1.03 },
])}
`);

await sessionManager.close();
pod.disconnect();
process.exit();
