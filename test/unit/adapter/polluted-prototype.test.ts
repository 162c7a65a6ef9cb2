import { readdirSync, readFileSync } from 'node:fs';
import { Server } from 'node:http';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { createBrokers } from '../../../src/adapter/amqp/index.js';
import { serviceChannelOptions } from '../../../src/adapter/grpc-js/index.js';
import { createHttp2Client, createSessionManager } from '../../../src/adapter/http2/index.js';
import { createPoolCluster } from '../../../src/adapter/mysql2/index.js';
import { createAgent, createAppAgents } from '../../../src/adapter/node-http/index.js';
import { createPool } from '../../../src/adapter/pg/index.js';
import { createReplicas } from '../../../src/adapter/redis/index.js';
import { createConnector } from '../../../src/adapter/tcp/index.js';
import { appInterceptor, createAppAgent, createDispatcher, createFetch } from '../../../src/adapter/undici/index.js';
import { createWebSockets } from '../../../src/adapter/ws/index.js';
import { createAdminHandler } from '../../../src/admin/index.js';
import {
  activeHealth,
  adaptive,
  createBalancer,
  dns,
  fixed,
  hash,
  outlierEjection,
  p2c,
  peakEwma,
  polling,
  prefixKey,
  promptKey,
  pushback,
  reported,
  resolverFrom,
  slowStart,
  staticEndpoints,
  subset,
  topologyHints,
  union,
  weightedRoundRobin,
  zone,
} from '../../../src/index.js';
import { instrumentTraces } from '../../../src/opentelemetry/index.js';
import { metricProducer } from '../../../src/opentelemetry/metrics.js';
import { endpointSlices } from '../../../src/resolver/kubernetes/index.js';
import { createBackend, gracefulShutdown } from '../../../src/server/index.js';
import { FakeTransport } from '../../../src/testing/index.js';

const source = fileURLToPath(new URL('../../../src/', import.meta.url));

/** The names of all options that any table or interface in a file with options has. */
const optionNames: ReadonlySet<string> = new Set(
  readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/^(?:recorder|testing|cli|place)\//.test(file))
    .map((file) => readFileSync(`${source}${file}`, 'utf8'))
    .filter((text) => /optionTable[<(]|Options \{$/m.test(text))
    .flatMap((text) => [...text.matchAll(/^ {2}readonly (\w+)\?: /gm)].map(([, name = '']) => name))
    // What describes a property is read by the language itself.
    .filter((name) => !['get', 'set', 'value'].includes(name)),
);

const own = <T extends object>(properties: T): T => Object.assign(Object.create(null), properties);

/** Returns where our code reads an option from `Object.prototype` while `work` runs: a line of a file, and the option. */
function inheritedReads(work: () => void): string[] {
  const reads = new Set<string>();
  const names = [...optionNames].filter((name) => !(name in Object.prototype));
  for (const name of names) {
    const descriptor: PropertyDescriptor = own({
      configurable: true,
      get() {
        const [, , line = ''] = String(new Error('read').stack).split('\n');
        if (line.includes(source)) reads.add(`${line.slice(line.indexOf(source) + source.length)} ${name}`);
        return undefined;
      },
      set(value) {
        Reflect.defineProperty(
          this as object,
          name,
          own({ value, configurable: true, enumerable: true, writable: true }),
        );
      },
    });
    Reflect.defineProperty(Object.prototype, name, descriptor);
  }
  try {
    work();
  } finally {
    for (const name of names) Reflect.deleteProperty(Object.prototype, name);
  }
  return [...reads];
}

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

const pods = staticEndpoints([{ address: '10.0.0.1', port: 80 }]);
const target = 'http://orders.shop:8080';
const nested = { retry: {}, pool: {} };

/** Calls each entry point with groups of options that say nothing. */
const entryPoints: Readonly<Record<string, () => unknown>> = {
  createBalancer: () => {
    const balancer = createBalancer({ ...nested, resolver: 'orders.shop:80', transport: new FakeTransport() });
    open.push(() => balancer.close({}));
    return balancer.snapshot();
  },
  resolverFrom: () => resolverFrom('orders.shop:80', { dns: {}, kubernetes: {} }),
  dns: () => dns({ host: 'orders.shop', port: 80 }),
  endpointSlices: () =>
    endpointSlices({ service: 'orders', namespace: 'shop', apiServer: 'https://api', credentials: {} }),
  'endpointSlices in the cluster': () => endpointSlices({ service: 'orders', inCluster: {} }),
  polling: () => polling({ name: 'ours', open: () => async () => ({ endpoints: [] }) }),
  union: () => union([pods], {}),
  pickers: () => [p2c({}), hash({}), weightedRoundRobin({}), promptKey({}), prefixKey({})],
  loads: () => [peakEwma({}), reported({})],
  limits: () => [adaptive({})(), fixed(8, {})()],
  stages: () => [
    activeHealth({}),
    outlierEjection({}),
    pushback({}),
    slowStart({}),
    zone({ zone: 'a' }),
    topologyHints({}),
  ],
  subset: () => subset({ size: 2, client: { index: 0, count: 2 } }),
  createDispatcher: () => {
    const dispatcher = createDispatcher('https://orders.shop', { ...nested, tls: {}, webSocket: {}, propagate: {} });
    open.push(() => dispatcher.close());
  },
  createFetch: () => {
    const orders = createFetch(target, { hedge: { afterMs: 10 } });
    open.push(() => orders.close());
  },
  createAppAgent: () => {
    const agent = createAppAgent({
      options: { tls: {}, pool: {} },
      discovery: { dns: {}, kubernetes: {} },
      webSocket: {},
    });
    open.push(() => agent.close());
  },
  appInterceptor: () => {
    const interceptor = appInterceptor({ options: () => ({}) });
    open.push(() => interceptor.close());
  },
  createAgent: () => {
    const agent = createAgent('https://orders.shop', { tls: {}, pool: {}, propagate: {} });
    open.push(() => agent.close());
  },
  createAppAgents: () => {
    const agents = createAppAgents({ options: { tls: {}, pool: {} }, fallbackAgents: {} });
    open.push(() => agents.close());
  },
  createHttp2Client: () => {
    const client = createHttp2Client('https://orders.shop', { ...nested, tls: {}, session: {} });
    open.push(() => client.close());
  },
  createSessionManager: () => {
    const manager = createSessionManager(target);
    open.push(() => manager.close());
  },
  createConnector: () => {
    const connector = createConnector('orders.shop:80', { tls: {}, rebalance: {}, pool: {} });
    open.push(() => connector.close());
  },
  createWebSockets: () => {
    const webSockets = createWebSockets('wss://orders.shop', { pool: {} });
    open.push(() => webSockets.close());
  },
  createBrokers: () => {
    const brokers = createBrokers('amqps://orders.shop', { pool: {} });
    open.push(() => brokers.close());
  },
  createReplicas: () => {
    const replicas = createReplicas(new Redis({ lazyConnect: true }), 'redis.shop:6379', { clientOptions: {} });
    open.push(() => replicas.close());
  },
  createPoolCluster: () => {
    const cluster = createPoolCluster({ target: 'mysql.shop:3306', user: 'app', ssl: {}, pool: {} });
    open.push(() => cluster.end());
  },
  'createPool of pg': () => {
    const pool = createPool({ host: 'postgres.shop', user: 'app', ssl: {}, pool: {} });
    open.push(() => pool.end());
  },
  serviceChannelOptions: () => serviceChannelOptions({ retry: {}, pool: {} }),
  createBackend: () => {
    const backend = createBackend({ reports: {} });
    open.push(() => backend.close());
  },
  gracefulShutdown: () => gracefulShutdown({ http: new Server(), signals: [], exit: false }),
  createAdminHandler: () => {
    const admin = createAdminHandler({});
    open.push(() => admin.close());
    return admin;
  },
  metricProducer: () => metricProducer({}),
  instrumentTraces: () => {
    const traces = instrumentTraces({});
    open.push(() => traces.stop());
  },
};

describe('a polluted Object.prototype', () => {
  it.each(Object.entries(entryPoints))('sets no option of %s', (_name, call) => {
    // The first call loads what is loaded once.
    call();
    expect(inheritedReads(() => call())).toEqual([]);
  });
});
