import { expect, it } from 'vitest';
import { createBrokers } from '../../../src/adapter/amqp/index.js';
import { createHttp2Client, createSessionManager } from '../../../src/adapter/http2/index.js';
import { createPoolCluster } from '../../../src/adapter/mysql2/index.js';
import { createAgent, createAppAgents } from '../../../src/adapter/node-http/index.js';
import { createPool } from '../../../src/adapter/pg/index.js';
import { createConnector } from '../../../src/adapter/tcp/index.js';
import { createAppAgent, createDispatcher, createFetch } from '../../../src/adapter/undici/index.js';
import { createWebSockets } from '../../../src/adapter/ws/index.js';
import { createBackend } from '../../../src/server/index.js';

type Create = (options: object) => unknown;

const resolver = 'static:127.0.0.1:1';
const entryPoints: readonly [string, Create, object?][] = [
  ['createAgent', (options) => createAgent('http://orders.shop', options)],
  ['createAppAgents', (options) => createAppAgents(options), { services: ['orders.shop'] }],
  ['createBackend', (options) => createBackend(options), { maxWaiting: 1 }],
  ['createBrokers', (options) => createBrokers('amqp://rabbit.shop', options)],
  ['createConnector', (options) => createConnector('orders.shop:80', options)],
  ['createDispatcher', (options) => createDispatcher('http://orders.shop', options)],
  ['createAppAgent', (options) => createAppAgent(options), { services: ['orders.shop'] }],
  ['createFetch', (options) => createFetch('http://orders.shop', options)],
  ['createHttp2Client', (options) => createHttp2Client('http://orders.shop', options)],
  ['createSessionManager', (options) => createSessionManager('http://orders.shop', options)],
  ['createPool of pg', (options) => createPool(options), { host: 'pg.shop', resolver }],
  ['createPoolCluster', (options) => createPoolCluster(options), { host: 'mysql.shop', resolver }],
  ['createWebSockets', (options) => createWebSockets('ws://orders.shop', options)],
];

// A check of one value would be for nothing if another is used. Getters, and objects of a configuration library, may return another each time.
it.each(entryPoints)('%s reads each option once', async (_name, create, given = { resolver }) => {
  const reads: Record<string, number> = {};
  const counting = new Proxy(given, {
    get: (target, name) => {
      reads[String(name)] = (reads[String(name)] ?? 0) + 1;
      return Reflect.get(target, name);
    },
  });
  const made = create(counting) as { close?: () => Promise<void>; end?: () => Promise<void>; destroy?: () => unknown };
  await (made.close?.() ?? made.end?.() ?? made.destroy?.());
  expect(Object.entries(reads).filter(([, count]) => count > 1)).toEqual([]);
});
