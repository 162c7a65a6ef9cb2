import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Client, credentials, Server, ServerCredentials } from '@grpc/grpc-js';
import { type Load, type LoadFactory, outcomes, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createPoolCluster } from 'evenkeel/mysql2';
import { createAgent } from 'evenkeel/node-http';
import { createDispatcher } from 'evenkeel/undici';
import { request } from 'undici';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';

/** What the load was told of calls: how long the endpoint took, in ms. */
let told: number[];
const telling: LoadFactory = (): Load => ({
  decays: false,
  start() {},
  end(startedMs, nowMs, outcome) {
    if (outcome !== outcomes.notStarted) told.push(nowMs - startedMs);
  },
  value: () => 1,
});
let undo: (() => unknown)[];

beforeEach(() => {
  told = [];
  undo = [];
});
afterEach(async () => {
  for (const step of undo.reverse()) await step();
});

/** A server whose answers begin at once and end when `finish` is called. */
async function slowBodies(): Promise<{ port: number; finish(): void }> {
  let answer: ServerResponse | undefined;
  const server = createServer((_asked: IncomingMessage, response) => {
    answer = response;
    response.write('begins ');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  undo.push(() => new Promise((resolve) => server.close(resolve)));
  return { port: (server.address() as AddressInfo).port, finish: () => answer?.end('and ends') };
}
const endpoint = (port: number) => staticEndpoints([{ address: '127.0.0.1', port }]);

/** So that a whole answer takes longer than it took to begin, on any machine. */
const asLongAgain = (beganMs: number, headMs: number): Promise<void> =>
  until('as much time has passed again', () => performance.now() - headMs > headMs - beganMs);

/** Asserts that the one call took at most as long as its answer took to begin, and not until its end. */
async function judged(beganMs: number, headMs: number): Promise<void> {
  await until('the load was told', () => told.length === 1);
  expect(told[0]).toBeLessThanOrEqual(headMs - beganMs);
}

it('undici: the latency of a download is the time to its first byte', async () => {
  const pod = await slowBodies();
  const dispatcher = createDispatcher('http://orders.shop:8080', { resolver: endpoint(pod.port), load: telling });
  undo.push(() => dispatcher.close());
  await dispatcher.balancer.ready();
  const beganMs = performance.now();
  const { body } = await request('http://orders.shop:8080/', { dispatcher });
  const headMs = performance.now();
  await asLongAgain(beganMs, headMs);
  pod.finish();
  expect(await body.text()).toBe('begins and ends');
  await judged(beganMs, headMs);
});

it('node:http: the latency of a download is the time to its first byte', async () => {
  const pod = await slowBodies();
  const agent = createAgent('http://orders.shop:8080', { resolver: endpoint(pod.port), load: telling });
  undo.push(() => agent.close());
  await agent.balancer.ready();
  const beganMs = performance.now();
  const [response] = (await once(get('http://orders.shop:8080/', { agent }), 'response')) as [IncomingMessage];
  const headMs = performance.now();
  await asLongAgain(beganMs, headMs);
  pod.finish();
  expect(await text(response)).toBe('begins and ends');
  await judged(beganMs, headMs);
});

it('gRPC: the latency of a stream is the time to its first message', async () => {
  const server = new Server();
  let finish: () => void = () => {};
  const watch = bytesMethod('/shop.Orders/Watch', true);
  server.addService(
    { watch },
    {
      watch(call: { write(bytes: Buffer): void; end(): void }) {
        call.write(Buffer.from('begins'));
        finish = () => {
          call.write(Buffer.from('goes on'));
          call.end();
        };
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  undo.push(() => server.forceShutdown());
  const client = new Client(
    serviceTarget('orders.shop:50051'),
    credentials.createInsecure(),
    serviceChannelOptions({ resolver: endpoint(port), load: telling }),
  );
  undo.push(() => client.close());
  await new Promise<void>((resolve, reject) => {
    client.waitForReady(Number.POSITIVE_INFINITY, (error) => (error ? reject(error) : resolve()));
  });
  const beganMs = performance.now();
  const call = client.makeServerStreamRequest(watch.path, asIs, asIs, Buffer.from('x'));
  await once(call, 'data');
  const headMs = performance.now();
  await asLongAgain(beganMs, headMs);
  finish();
  await once(call, 'end');
  await judged(beganMs, headMs);
});

it('MySQL: the time for which the application keeps a connection is not latency', async () => {
  await using server = await ScriptedMysql.start();
  const cluster = createPoolCluster({ resolver: staticEndpoints([server.endpoint]), load: telling, user: 'app' });
  undo.push(() => cluster.end());
  const connection = await cluster.getConnection();
  connection.release();
  await until('it is given back', () => cluster.balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
  expect(told).toEqual([]);
});
