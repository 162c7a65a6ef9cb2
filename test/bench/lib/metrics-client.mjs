/**
 * A process of clients, one per protocol, in which one row of `metrics-rows.mjs` is switched on (argv[2]). It takes
 * { protocol, size } and answers with the sample; argv[3] says where the servers are, as JSON.
 */
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { createBalancer, outcomes, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createPoolCluster } from 'evenkeel/mysql2';
import { FakeTransport } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { application } from '../../support/databases/mariadb/servers.mjs';
import { closedLoop } from './closed-loop.mjs';
import { ALONE, PICKS, rows } from './metrics-rows.mjs';

const [name = '', where = '{}'] = process.argv.slice(2);
const { options = {}, scrape } = /** @type {() => import('./metrics-rows.mjs').Row} */ (rows[name])();
const servers = JSON.parse(where);

/** @type {Record<string, () => () => Promise<unknown>>} */
const makers = {
  /** Without a network: what is left is what watching costs by itself. */
  [ALONE]() {
    const resolver = staticEndpoints([1, 2, 3].map((pod) => ({ address: `10.0.0.${pod}`, port: 80 })));
    const balancer = createBalancer({ resolver, transport: new FakeTransport(), ...options });
    return async () => {
      await balancer.ready();
      for (let pick = 0; pick < PICKS; pick++) balancer.pick()?.end(outcomes.success);
    };
  },
  undici() {
    const orders = createDispatcher('http://orders.shop:8080', {
      resolver: staticEndpoints(servers.undici),
      ...options,
    });
    const request = { path: '/v1/orders/42', method: /** @type {const} */ ('GET') };
    return async () => {
      const { body } = await orders.request(/** @type {any} */ (request));
      await body.dump();
    };
  },
  gRPC() {
    const resolver = staticEndpoints(servers.gRPC);
    const own = serviceChannelOptions({ resolver, ...options });
    const client = new Client(serviceTarget('orders.shop:50051'), credentials.createInsecure(), own);
    const same = (/** @type {Buffer} */ bytes) => bytes;
    const request = Buffer.alloc(100, 'x');
    client.makeUnaryRequest('/shop.v1.Orders/Hang', same, same, request, new Metadata(), {}, () => {});
    return () =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, request, new Metadata(), {}, (error) =>
          error ? reject(error) : resolve(undefined),
        );
      });
  },
  MySQL() {
    const cluster = createPoolCluster({
      ...application,
      connectionLimit: 20,
      resolver: staticEndpoints(servers.MySQL),
      idempotent: true,
      ...options,
    });
    return () => cluster.query('SELECT @@server_id AS id, name, price FROM items WHERE id = 7');
  },
};

/** @type {Map<string, () => Promise<unknown>>} */
const calls = new Map();
let visits = 0;
process.on(
  'message',
  async (/** @type {{ protocol: string, size: { requests: number, concurrency: number } }} */ message) => {
    const { protocol, size } = message;
    const call = calls.get(protocol) ?? makers[protocol]?.();
    if (call === undefined) throw new RangeError(`no protocol is called ${protocol}`);
    calls.set(protocol, call);
    const cpu = process.cpuUsage();
    const sample = await closedLoop(call, size);
    if (visits++ % 10 === 0) await scrape?.();
    const { user, system } = process.cpuUsage(cpu);
    const each = protocol === ALONE ? PICKS : 1;
    process.send?.({ ...sample, cpuUs: (user + system) / size.requests / each });
  },
);
process.on('disconnect', () => process.exit());
process.send?.({ port: 0 });
