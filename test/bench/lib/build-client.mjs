/**
 * One sample of one build, in a process of its own: loads the build from its `dist` folder, makes the calls of one scene, and prints what
 * a call costs as JSON. The peers are the build's own, as an application would have them.
 *
 *   node build-client.mjs <dist> <scene> <servers, as JSON> <calls>
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { closedLoop } from './closed-loop.mjs';

const [dist = '', scene = '', servers = '[]', calls = '1'] = process.argv.slice(2);
const CONCURRENCY = 30;
/** Calls before those that are measured: what V8 compiles late is compiled by then, and every connection is open. */
const WARM_UP = 0.5;
const SERVICE = 'http://orders.shop:8080';
const SQL = 'SELECT name, price FROM items WHERE id = 7';
const body = JSON.stringify({ order: 42, note: 'x'.repeat(100) });

/** @param {string} file */
const load = (file) => import(pathToFileURL(join(dist, file)).href);
const peers = createRequire(join(dist, 'index.js'));
/** @type {readonly any[]} */
const endpoints = JSON.parse(servers);
const { createBalancer, outcomes, staticEndpoints } = await load('index.js');
const resolver = () => staticEndpoints(endpoints);

/** Each returns a function that makes one call, and one that ends all. @type {Record<string, () => Promise<any>>} */
const scenes = {
  async pick() {
    const never = new Promise(() => {});
    const balancer = createBalancer({
      resolver: staticEndpoints(Array.from({ length: 100 }, (_, i) => ({ address: `10.0.0.${i + 1}`, port: 80 }))),
      transport: {
        connect: async () => ({
          handle: undefined,
          capacity: Number.POSITIVE_INFINITY,
          watchCapacity() {},
          closed: never,
          close: async () => {},
        }),
      },
      pool: { maxConnecting: Number.POSITIVE_INFINITY },
    });
    await balancer.ready();
    while (balancer.snapshot().endpoints.some((/** @type {any} */ { state }) => state !== 'ready')) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    return { call: () => balancer.pick().end(outcomes.success), close: () => balancer.close() };
  },

  get: () => undiciScene({ method: 'GET' }),
  post: () => undiciScene({ method: 'POST', headers: { 'content-type': 'application/json' }, body }),

  async 'node:http'() {
    const http = peers('node:http');
    const { createAgent } = await load('adapter/node-http/index.js');
    const agent = createAgent(SERVICE, { resolver: resolver() });
    const call = () =>
      new Promise((resolve, reject) => {
        const request = http.get(`${SERVICE}/orders/42`, { agent }, (/** @type {any} */ response) => {
          response.on('error', reject).on('end', resolve).resume();
        });
        request.on('error', reject);
      });
    return { call, close: () => agent.close() };
  },

  async grpc() {
    const { Client, credentials, Metadata } = peers('@grpc/grpc-js');
    const grpc = await load('adapter/grpc-js/index.js');
    // Both have had other names.
    const target = grpc.serviceTarget ?? grpc.target;
    const options = grpc.serviceChannelOptions ?? grpc.channelOptions;
    const client = new Client(
      target('orders.shop:50051'),
      credentials.createInsecure(),
      options({ resolver: resolver() }),
    );
    const request = Buffer.alloc(100, 'x');
    const same = (/** @type {Buffer} */ bytes) => bytes;
    const call = () =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          '/shop.v1.Orders/Get',
          same,
          same,
          request,
          new Metadata(),
          {},
          (/** @type {unknown} */ error) => (error ? reject(error) : resolve(undefined)),
        );
      });
    return { call, close: async () => client.close() };
  },

  async mysql2() {
    const { createPoolCluster } = await load('adapter/mysql2/index.js');
    const cluster = createPoolCluster({ ...database, connectionLimit: 20, resolver: resolver(), idempotent: true });
    return { call: () => cluster.query(SQL), close: () => cluster.end() };
  },

  async pg() {
    const { createPool } = await load('adapter/pg/index.js');
    const pool = createPool({ ...database, max: 20, resolver: resolver(), role: 'replica' });
    return { call: () => pool.query(SQL), close: () => pool.end() };
  },
};
const database = { user: 'shop', password: 'shop-secret', database: 'shop' };

/** @param {object} request */
async function undiciScene(request) {
  const { createDispatcher } = await load('adapter/undici/index.js');
  const dispatcher = createDispatcher(SERVICE, { resolver: resolver() });
  const options = { origin: SERVICE, path: '/orders/42', ...request };
  const call = async () => {
    const { body: answer } = await dispatcher.request({ ...options });
    return answer.text();
  };
  return { call, close: () => dispatcher.close() };
}

const prepare = scenes[scene];
if (prepare === undefined) throw new Error(`there is no scene called ${scene}`);
const { call, close } = await prepare();
const requests = Number(calls);

/** @param {number} count */
async function measured(count) {
  if (scene !== 'pick') {
    const { perSecond, cpuUs } = await closedLoop(call, { requests: count, concurrency: CONCURRENCY });
    return { wallUs: 1e6 / perSecond, cpuUs };
  }
  const cpu = process.cpuUsage();
  const begun = process.hrtime.bigint();
  for (let i = 0; i < count; i++) call();
  const wallUs = Number(process.hrtime.bigint() - begun) / 1_000 / count;
  const { user, system } = process.cpuUsage(cpu);
  return { wallUs, cpuUs: (user + system) / count };
}

await measured(Math.ceil(requests * WARM_UP));
const sample = await measured(requests);
await close();
process.stdout.write(JSON.stringify(sample), () => process.exit());
