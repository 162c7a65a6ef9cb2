import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { createBrokers } from '../../../src/adapter/amqp/index.js';
import { createHttp2Client, createSessionManager } from '../../../src/adapter/http2/index.js';
import { createAgent } from '../../../src/adapter/node-http/index.js';
import { createPool } from '../../../src/adapter/pg/index.js';
import { openIoredis } from '../../../src/adapter/redis/ioredis-client.js';
import { replicasSettings } from '../../../src/adapter/redis/options.js';
import { createConnector } from '../../../src/adapter/tcp/index.js';
import { createAppAgent, createDispatcher, createFetch } from '../../../src/adapter/undici/index.js';
import { createWebSockets } from '../../../src/adapter/ws/index.js';
import { createEndpoint } from '../../../src/index.js';

/** Whatever takes options of `tls.connect` or `net.connect`, given these. */
const entryPoints: Readonly<Record<string, (tls: object) => unknown>> = {
  createDispatcher: (tls) => createDispatcher('https://orders.shop', { tls }),
  createFetch: (tls) => createFetch('https://orders.shop', { tls }),
  createAppAgent: (tls) => createAppAgent({ options: { tls } }),
  createAgent: (tls) => createAgent('https://orders.shop', { tls }),
  createHttp2Client: (tls) => createHttp2Client('https://orders.shop', { tls }),
  createSessionManager: (tls) => createSessionManager('https://orders.shop', { tls }),
  createConnector: (tls) => createConnector('orders.shop:7000', { tls }),
  createWebSockets: (tls) => createWebSockets('wss://orders.shop', { tls }),
  'createPool of pg': (ssl) => createPool({ host: 'postgres.shop', ssl }),
  'connect of amqplib': (socketOptions) =>
    createBrokers('amqps://rabbit.shop').connect(async () => ({}), { socketOptions }),
  'a connection manager': (connectionOptions) =>
    createBrokers('amqps://rabbit.shop').connectManager(() => ({}), { connectionOptions }),
  'a connection of rabbitmq-client': (socket) =>
    createBrokers('amqps://rabbit.shop').createConnection(class {}, { socket } as object),
  'a replica of ioredis': (tls) =>
    openIoredis(new Redis({ lazyConnect: true }), replicasSettings('redis.shop:6379', {}), { tls })(
      createEndpoint({ address: '10.0.0.1', port: 6379 }),
      () => {},
    ),
};

const redirecting = { path: '/tmp/other.sock', socket: {}, host: '10.0.0.9', port: 1, lookup: () => {} };

const cases = Object.keys(entryPoints).flatMap((entryPoint) =>
  Object.keys(redirecting).map((name) => ({ entryPoint, name })),
);

describe('an option of tls.connect that would connect elsewhere than to the pod', () => {
  it.each(cases)('$name is refused by $entryPoint', async ({ entryPoint, name }) => {
    const taken = (async () => entryPoints[entryPoint]?.({ [name]: redirecting[name as 'host'] }))();
    await expect(taken).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
      message: expect.stringContaining(`.${name} must be left out`),
    });
  });
});
