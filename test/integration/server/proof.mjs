/**
 * A rolling update of pods that leave by `gracefulShutdown`, without any preStop hook: `npm run proof:shutdown -- 50000`.
 *
 * Ten pods are replaced one by one, over and over. evenkeel (undici, node:http, gRPC) learns of it as from a watch; undici,
 * node:http, axios and grpc-js as they are go through a stand-in for kube-proxy, which picks a ready pod for each connection and
 * learns of a change 500 ms late. Half of the HTTP requests are POSTs. Printed: requests and failures per client.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Client, credentials } from '@grpc/grpc-js';
import axios from 'axios';
import { channelOptions, target } from 'evenkeel/grpc-js';
import { createAgent } from 'evenkeel/node-http';
import { FakeResolver } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { Pool } from 'undici';

const PODS = 10;
const wanted = Number(process.argv[2] ?? 50_000);
const PROXY_LAG_MS = 500;
const PER_SECOND_OF_EACH = 60;
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

const program = fileURLToPath(new URL('support/leaving-pod.mjs', import.meta.url));
async function startPod() {
  const child = fork(program, ['{}'], { execArgv: [] });
  const [{ port, grpcPort }] = await once(child, 'message');
  const exited = once(child, 'exit');
  return { child, port, grpcPort, exited };
}
let pods = await Promise.all(Array.from({ length: PODS }, startPod));
/** What kube-proxy knows. */
let proxied = pods;

/** @param {'port' | 'grpcPort'} which */
async function standIn(which) {
  const server = createServer({ allowHalfOpen: true }, (caller) => {
    const pod = proxied[Math.floor(Math.random() * proxied.length)];
    const socket = connect({ port: pod[which], host: '127.0.0.1', allowHalfOpen: true });
    caller.pipe(socket).pipe(caller);
    for (const [one, other] of [
      [caller, socket],
      [socket, caller],
    ]) {
      one.on('error', () => other.resetAndDestroy?.());
      one.on('close', () => other.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: server.address().port };
}
const http = await standIn('port');
const grpc = await standIn('grpcPort');

const httpResolver = new FakeResolver();
const agentResolver = new FakeResolver();
const grpcResolver = new FakeResolver();
function publish() {
  const addresses = (which) => pods.map((pod) => ({ address: '127.0.0.1', port: pod[which] }));
  httpResolver.update(...addresses('port'));
  agentResolver.update(...addresses('port'));
  grpcResolver.update(...addresses('grpcPort'));
}
publish();

const origin = 'http://orders.shop:8080';
const ours = createDispatcher(origin, { resolver: httpResolver });
const agent = createAgent(origin, { resolver: agentResolver });
const stock = new Pool(`http://127.0.0.1:${http.port}`, { connections: 10 });
const stockAgent = new Agent({ keepAlive: true, maxSockets: 10 });
const orders = axios.create({
  baseURL: `http://127.0.0.1:${http.port}`,
  httpAgent: new Agent({ keepAlive: true, maxSockets: 10 }),
});
const balanced = new Client(
  target('orders.shop:50051'),
  credentials.createInsecure(),
  channelOptions({ resolver: grpcResolver }),
);
const plain = new Client(`127.0.0.1:${grpc.port}`, credentials.createInsecure());

const same = (/** @type {Buffer} */ bytes) => bytes;
const call = (/** @type {Client} */ client) => () =>
  new Promise((resolve, reject) => {
    client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, Buffer.alloc(1), (error) =>
      error ? reject(error) : resolve(undefined),
    );
  });
const byUndici = (dispatcher) => async (method) => {
  const { statusCode, body } = await dispatcher.request({
    path: '/',
    method,
    body: method === 'POST' ? 'an order' : null,
  });
  await body.dump();
  if (statusCode !== 200) throw new Error(`status ${statusCode}`);
};
const byNode = (options) => (method) =>
  new Promise((resolve, reject) => {
    const request = httpRequest({ path: '/', method, ...options }, (answer) =>
      answer.resume().on('end', resolve).on('error', reject),
    );
    request.on('error', reject);
    request.end(method === 'POST' ? 'an order' : undefined);
  });
const clients = {
  'evenkeel, undici': byUndici(ours),
  'evenkeel, node:http': byNode({ host: 'orders.shop', port: 8080, agent }),
  'evenkeel, gRPC': call(balanced),
  'undici Pool': byUndici(stock),
  'node:http keep-alive': byNode({ host: '127.0.0.1', port: http.port, agent: stockAgent }),
  axios: (method) => orders.request({ url: '/', method, data: method === 'POST' ? 'an order' : undefined }),
  'grpc-js': call(plain),
};
const tallies = Object.fromEntries(
  Object.keys(clients).map((name) => [name, { requests: 0, GET: 0, POST: 0, codes: {} }]),
);

let isOver = false;
const running = new Set();
async function send(name) {
  const tally = tallies[name];
  while (!isOver) {
    const method = Math.random() < 0.5 ? 'GET' : 'POST';
    tally.requests++;
    const sent = clients[name](method).catch((error) => {
      tally[method]++;
      const code = String(error.code ?? error.message);
      tally.codes[code] = (tally.codes[code] ?? 0) + 1;
    });
    running.add(sent);
    void sent.finally(() => running.delete(sent));
    await pause((-Math.log(1 - Math.random()) * 1_000) / PER_SECOND_OF_EACH);
  }
}
await ours.balancer.ready();
const senders = Object.keys(clients).map(send);
let replaced = 0;
const leaving = [];
const ofOurs = () =>
  ['evenkeel, undici', 'evenkeel, node:http', 'evenkeel, gRPC'].reduce((sum, name) => sum + tallies[name].requests, 0);
while (ofOurs() < wanted) {
  const fresh = await startPod();
  const [old, ...others] = pods;
  pods = [...others, fresh];
  // As on a cluster: the signal and the news set out together.
  old.child.kill('SIGTERM');
  publish();
  const known = pods;
  setTimeout(() => {
    proxied = known;
  }, PROXY_LAG_MS);
  leaving.push(old.exited);
  if (++replaced % 10 === 0) console.error(`${replaced} pods replaced, ${ofOurs()} of ${wanted} requests`);
  await pause(700);
}
isOver = true;
await Promise.all(senders);
await Promise.all(running);
const codes = await Promise.all(leaving);
console.log(`${replaced} pods replaced; exit codes other than 0: ${codes.filter(([code]) => code !== 0).length}\n`);
console.log('| client | requests | GETs or calls failed | POSTs failed | as |\n|---|---:|---:|---:|---|');
for (const [name, { requests, GET, POST, codes }] of Object.entries(tallies)) {
  console.log(
    `| ${name} | ${requests} | ${GET} | ${POST} | ${Object.entries(codes)
      .map(([code, count]) => `${code}: ${count}`)
      .join(', ')} |`,
  );
}
await Promise.all([ours.close(), agent.close(), stock.close()]);
balanced.close();
plain.close();
for (const { child } of pods) child.disconnect();
http.server.close();
grpc.server.close();
process.exit(0);
