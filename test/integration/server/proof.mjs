/**
 * A rolling update of pods that leave by `gracefulShutdown`, without any preStop hook: `npm run proof -- shutdown 50000`.
 *
 * Ten pods are replaced one by one, over and over. evenkeel (undici, node:http, gRPC) learns of it as from a watch; undici,
 * node:http, axios and grpc-js as they are go through a stand-in for kube-proxy, which picks a ready pod for each connection and
 * learns of a change 500 ms late. Half of the HTTP requests are POSTs; curl sends 30 on each connection. Printed: requests and
 * failures per client, and for each connection its pod closed after bytes of its caller that nothing followed, when that was (over
 * gRPC, and after an early answer to a POST, that is usual). Before that one pod gets SIGTERM while
 * 1,000 requests run and 200 WebSockets are open.
 */
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Client, credentials } from '@grpc/grpc-js';
import axios from 'axios';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createAgent } from 'evenkeel/node-http';
import { FakeResolver } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { Pool } from 'undici';
import { WebSocket } from 'ws';

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
/** SIGTERM while 1,000 requests run and 200 WebSockets are open. */
{
  const { child, port, exited } = await startPod();
  const agent = new Agent({ keepAlive: true });
  let answered = 0;
  let refused = 0;
  const requests = Array.from(
    { length: 1_000 },
    () =>
      new Promise((resolve) => {
        const request = httpRequest({ port, host: '127.0.0.1', path: '/?ms=6000', agent, method: 'POST' }, (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode === 200 ? answered++ : refused++));
        });
        request.on('error', () => resolve(refused++));
        request.end('an order');
      }),
  );
  const codes = {};
  const sockets = Array.from({ length: 200 }, () => new WebSocket(`ws://127.0.0.1:${port}`));
  await Promise.all(sockets.map((socket) => once(socket, 'open')));
  const closed = sockets.map(async (socket) => {
    const [code] = await once(socket, 'close');
    codes[code] = (codes[code] ?? 0) + 1;
  });
  // The 1,000 have arrived: connections are accepted in order, and the last one answers.
  await new Promise((resolve) => httpRequest({ port, host: '127.0.0.1', path: '/' }, resolve).end());
  const beganMs = performance.now();
  child.kill('SIGTERM');
  const [code] = await exited;
  const tookS = ((performance.now() - beganMs) / 1_000).toFixed(1);
  await Promise.all([...requests, ...closed]);
  agent.destroy();
  console.log(
    `SIGTERM with 1,000 requests and 200 WebSockets: ${answered} answered, ${refused} not; closed with ${JSON.stringify(codes)}; exit ${code} after ${tookS} s\n`,
  );
}

let pods = await Promise.all(Array.from({ length: PODS }, startPod));
/** What kube-proxy knows. */
let proxied = pods;

/** Requests under way when their pod closed the connection. */
const cuts = [];
function trace(which, caller, podOf, socketOf) {
  let askedMs = 0;
  let answeredMs = 0;
  /** When the pod closed it, while nothing was under way. */
  let closedMs = 0;
  const record = (/** @type {number} */ nowMs) => {
    cuts.push({
      to: which,
      sinceSignalMs: podOf().leftMs === undefined ? undefined : Math.round(nowMs - podOf().leftMs),
      idleMs: Math.round(askedMs - answeredMs),
      sinceAskedMs: Math.round(nowMs - askedMs),
    });
  };
  caller.on('data', () => {
    askedMs = performance.now();
    // The request and the end of its connection met on the way.
    if (closedMs > 0) record(closedMs);
    closedMs = 0;
  });
  queueMicrotask(() => {
    const socket = socketOf();
    socket.on('data', () => {
      answeredMs = performance.now();
    });
    const ended = () => {
      const nowMs = performance.now();
      if (askedMs <= answeredMs) {
        closedMs = nowMs;
        return;
      }
      record(nowMs);
      askedMs = 0;
    };
    socket.once('end', ended);
    socket.once('error', ended);
  });
}

/** @param {'port' | 'grpcPort'} which */
async function standIn(which) {
  const server = createServer({ allowHalfOpen: true }, (caller) => {
    trace(
      which,
      caller,
      () => pod,
      () => socket,
    );
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
  serviceTarget('orders.shop:50051'),
  credentials.createInsecure(),
  serviceChannelOptions({ resolver: grpcResolver }),
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

/** curl: 30 requests on one connection, a tenth of a second apart. */
async function byCurl(tally) {
  const config = Array.from({ length: 30 }, (_, at) =>
    [
      `url = "http://127.0.0.1:${http.port}/"`,
      'output = /dev/null',
      ...(at % 2 === 0 ? ['data = "an order"'] : []),
      `write-out = "${at % 2 === 0 ? 'POST' : 'GET'} %{http_code} %{errormsg}\\n"`,
      'next',
    ].join('\n'),
  ).join('\n');
  const child = spawn('curl', ['--silent', '--rate', '10/s', '--config', '-'], { stdio: ['pipe', 'pipe', 'ignore'] });
  child.stdin.end(config);
  let told = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    told += text;
  });
  await once(child, 'close');
  for (const line of told.split('\n')) {
    const [, method, code, message] = /^(POST|GET) (\d+) ?(.*)$/.exec(line) ?? [];
    if (method === undefined) continue;
    tally.requests++;
    if (code === '200') continue;
    tally[method]++;
    tally.codes[message || code] = (tally.codes[message || code] ?? 0) + 1;
  }
}

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
tallies.curl = { requests: 0, GET: 0, POST: 0, codes: {} };
const curls = Array.from({ length: 4 }, async () => {
  while (!isOver) await byCurl(tallies.curl);
});
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
  old.leftMs = performance.now();
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
await Promise.all(curls);
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
for (const cut of cuts) console.log(`cut: ${JSON.stringify(cut)}`);
await Promise.all([ours.close(), agent.close(), stock.close()]);
balanced.close();
plain.close();
for (const { child } of pods) child.disconnect();
http.server.close();
grpc.server.close();
process.exit(0);
