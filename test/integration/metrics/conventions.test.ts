import { get } from 'node:http';
import { status } from '@grpc/grpc-js';
import { staticEndpoints } from 'evenkeel';
import { createPoolCluster } from 'evenkeel/mysql2';
import { createAgent } from 'evenkeel/node-http';
import { metricProducer } from 'evenkeel/opentelemetry';
import { createPool } from 'evenkeel/pg';
import { createDispatcher } from 'evenkeel/undici';
import { expect, it } from 'vitest';
import { application, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import {
  noPostgres,
  application as pgApplication,
  titled as pgTitled,
  startPostgres,
} from '../../support/databases/postgres.js';
import { calledAfterEach } from '../../support/opened.js';
import { Pod } from '../../support/pods/pods.js';
import { connected, ordersClient, say } from '../grpc-js/support/client.js';
import { Pods as GrpcPods } from '../grpc-js/support/pods.js';

const open = calledAfterEach();

const producer = metricProducer({ conventions: ['http', 'grpc', 'db'] });

/** The series of a metric with an attribute, by their other attributes; histograms by their count. */
async function series(name: string, [key, wanted]: [string, string | number]): Promise<Record<string, number>> {
  const { resourceMetrics } = await producer.collect();
  const metric = resourceMetrics.scopeMetrics[0]?.metrics.find(({ descriptor }) => descriptor.name === name);
  const found: Record<string, number> = {};
  for (const { attributes, value } of metric?.dataPoints ?? []) {
    if (attributes[key] !== wanted) continue;
    const rest = Object.entries(attributes).filter(
      ([attribute]) => !/^(server|url|db\.system|grpc\.target)/.test(attribute),
    );
    found[rest.map(([, one]) => one).join(' ')] = typeof value === 'number' ? value : value.count;
  }
  return found;
}

it('HTTP: requests by method and status, open connections, the Service as server', async () => {
  const pod = await Pod.start();
  open.push(() => pod.kill());
  const resolver = staticEndpoints([pod.endpoint]);
  const orders = createDispatcher('http://orders.shop:8080', { resolver });
  open.push(() => orders.close());
  const ask = async (method: 'GET' | 'POST'): Promise<void> => {
    await (await orders.request({ path: '/', method })).body.dump();
  };
  await ask('GET');
  await ask('GET');
  await ask('POST');
  await pod.behave({ status: 404 });
  await ask('GET');
  await pod.behave({ reset: true });
  await ask('POST').catch(() => {});
  await pod.behave({ reset: false, status: 200 });
  const server: [string, string] = ['server.address', 'orders.shop'];
  expect(await series('http.client.request.duration', server)).toEqual({
    'GET 200': 2,
    'POST 200': 1,
    'GET 404 404': 1,
    'POST reset': 1,
  });
  await ask('GET');
  expect(await series('http.client.open_connections', server)).toEqual({ active: 0, idle: 1 });
  expect(await series('http.client.active_requests', server)).toEqual({ '': 0 });

  const agent = createAgent('http://stock.shop:8080', { resolver });
  open.push(() => agent.close());
  await new Promise((resolve, reject) => {
    get({ agent, host: 'stock.shop', port: 8080, path: '/' }, (response) => {
      response.resume().on('end', resolve);
    }).on('error', reject);
  });
  const stock: [string, string] = ['server.address', 'stock.shop'];
  expect(await series('http.client.request.duration', stock)).toEqual({ 'GET 200': 1 });
});

it('gRPC: calls and attempts by method and status, connections', async () => {
  const pods = new GrpcPods();
  open.push(() => pods.stop());
  await pods.start(2);
  const { client, balancer } = ordersClient({ resolver: staticEndpoints(pods.endpoints) });
  open.push(() => client.close());
  await connected(balancer, 2);
  for (let call = 0; call < 4; call++) await say(client);
  for (const pod of pods.all) await pod.set({ fail: status.NOT_FOUND });
  await say(client).catch(() => {});
  const target: [string, string] = ['grpc.target', 'orders.shop:50051'];
  const ended = { 'test.v1.Echo/Say OK': 4, 'test.v1.Echo/Say NOT_FOUND': 1 };
  expect(await series('grpc.client.call.duration', target)).toEqual(ended);
  expect(await series('grpc.client.attempt.duration', target)).toEqual(ended);
  expect(await series('grpc.client.attempt.started', target)).toEqual({ 'test.v1.Echo/Say': 5 });
  expect(await series('grpc.subchannel.open_connections', target)).toEqual({ '': 2 });
  expect(await series('grpc.subchannel.connection_attempts_succeeded', target)).toEqual({ '': 2 });
  client.close();
  // What closed channels counted is kept.
  expect(await series('grpc.subchannel.disconnections', target)).toEqual({ '': 2 });
  expect(await series('grpc.subchannel.open_connections', target)).toEqual({});
});

it.skipIf(noMariadb)(titled('MySQL: statements by result, connections'), async () => {
  const world = await startMariadbs(1, { init: ['CREATE TABLE IF NOT EXISTS t (a INT PRIMARY KEY)'] });
  open.push(() => world.close());
  const cluster = createPoolCluster({ ...application, resolver: staticEndpoints(world.endpoints) });
  open.push(() => cluster.end());
  await cluster.query('SELECT 1');
  await cluster.query('INSERT INTO t VALUES (7)');
  await cluster.query('INSERT INTO t VALUES (7)').catch(() => {});
  const connection = await cluster.getConnection();
  const system: [string, string] = ['db.system.name', 'mysql'];
  expect(await series('db.client.operation.duration', system)).toEqual({ '': 2, '1062 1062': 1 });
  const connections = Object.values(await series('db.client.connection.count', system));
  expect(connections).toEqual([1, expect.any(Number)]);
  connection.release();
});

it.skipIf(noPostgres)(pgTitled('PostgreSQL: statements by SQLSTATE'), async () => {
  const world = await startPostgres(0, { init: ['CREATE TABLE t (a int PRIMARY KEY)'] });
  open.push(() => world.close());
  const pool = createPool({ resolver: staticEndpoints(world.endpoints), ...pgApplication });
  open.push(() => pool.end());
  await pool.query('INSERT INTO t VALUES (7)');
  await pool.query('INSERT INTO t VALUES (7)').catch(() => {});
  const system: [string, string] = ['db.system.name', 'postgresql'];
  expect(await series('db.client.operation.duration', system)).toEqual({ '': 1, '23505 23505': 1 });
  const connections = Object.values(await series('db.client.connection.count', system));
  expect(connections.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
});
