/**
 * A process with one gRPC channel. It takes { requests, concurrency, isSpread } and answers with the sample of so many unary calls, or
 * with how many of them each pod had.
 *
 *   fork('grpc-client.mjs', [JSON.stringify({ channel, ports })])   channel: `roundRobin` and `default` are evenkeel's, others policies of grpc-js
 */
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { closedLoop } from './closed-loop.mjs';

const REQUEST = Buffer.alloc(100, 'x');

/** @type {{ channel: string, ports: number[] }} */
const { channel, ports } = JSON.parse(process.argv[2] ?? '');
const client = channel === 'roundRobin' || channel === 'default' ? ours() : stock();

function ours() {
  const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));
  const options = channel === 'roundRobin' ? { resolver, picker: roundRobin() } : { resolver };
  return new Client(
    serviceTarget('orders.shop:50051'),
    credentials.createInsecure(),
    serviceChannelOptions({ ...options, 'grpc.enable_http_proxy': 0 }),
  );
}

function stock() {
  const addresses = ports.map((port) => `127.0.0.1:${port}`);
  return new Client(`ipv4:${addresses.join(',')}`, credentials.createInsecure(), {
    'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ [channel]: {} }] }),
    'grpc.enable_http_proxy': 0,
  });
}

const same = (/** @type {Buffer} */ bytes) => bytes;
/** Calls per pod, by its number. @type {number[]} */
let perPod = [];
/** @returns {Promise<void>} */
const call = () =>
  new Promise((resolve, reject) => {
    client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, REQUEST, new Metadata(), {}, (error, answer) => {
      if (error) return reject(error);
      const pod = Number(answer?.[0]);
      perPod[pod] = (perPod[pod] ?? 0) + 1;
      resolve();
    });
  });

// The collection of garbage before each visit would otherwise find no call alive, and V8 forgets what it has learnt of objects of which
// there is none. In a process at work some call is always under way.
client.makeUnaryRequest('/shop.v1.Orders/Hang', same, same, REQUEST, new Metadata(), {}, () => {});

process.on('message', async (/** @type {{ requests: number, concurrency: number, isSpread: boolean }} */ message) => {
  const { requests, concurrency, isSpread } = message;
  perPod = ports.map(() => 0);
  globalThis.gc?.({ type: 'minor' });
  const sample = await closedLoop(call, { requests, concurrency });
  process.send?.(isSpread ? perPod : sample);
});
process.on('disconnect', () => process.exit());
process.send?.({ port: 0 });
