/** How a client of the fleet sends its calls over gRPC. */
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { renewable } from './renewable.mjs';

const insecure = credentials.createInsecure();
const request = Buffer.alloc(0);
const same = (/** @type {Buffer} */ bytes) => bytes;

/** @param {Client} client @param {number} workMs @returns {Promise<unknown>} */
const unary = (client, workMs) =>
  new Promise((resolve, reject) => {
    const metadata = new Metadata();
    metadata.set('x-work-ms', String(workMs));
    client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, request, metadata, {}, (error, answer) =>
      error ? reject(error) : resolve(answer),
    );
  });

/** A channel of grpc-js alone, with connections of its own. @param {string} policy @param {readonly number[]} ports */
const channel = (policy, ports) =>
  new Client(`ipv4:${ports.map((port) => `127.0.0.1:${port}`).join(',')}`, insecure, {
    'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ [policy]: {} }] }),
    'grpc.enable_http_proxy': 0,
    'grpc.use_local_subchannel_pool': 1,
  });

/** @param {Client} client */
const contender = (client) => ({
  call: (/** @type {number} */ workMs) => unary(client, workMs),
  close: async () => client.close(),
});

/** @type {import('./fleet-contenders.mjs').Kinds} */
export const kinds = {
  /** pick_first to one address: all calls of a client are on one connection, for which a pod is drawn. */
  stock: (ports) => renewable(() => contender(channel('pick_first', ports))),
  roundRobin: (ports) => contender(channel('round_robin', ports)),
  default: (ports) => {
    const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));
    return contender(new Client(serviceTarget('orders.shop:50051'), insecure, serviceChannelOptions({ resolver })));
  },
};
