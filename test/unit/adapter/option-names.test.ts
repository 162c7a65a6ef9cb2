import { readdirSync, readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { createBrokers } from '../../../src/adapter/amqp/index.js';
import { serviceChannelOptions } from '../../../src/adapter/grpc-js/index.js';
import { createHttp2Client } from '../../../src/adapter/http2/index.js';
import { createPoolCluster } from '../../../src/adapter/mysql2/index.js';
import { createAgent } from '../../../src/adapter/node-http/index.js';
import { createPool } from '../../../src/adapter/pg/index.js';
import { createReplicas } from '../../../src/adapter/redis/index.js';
import { createConnector } from '../../../src/adapter/tcp/index.js';
import { createDispatcher } from '../../../src/adapter/undici/index.js';
import { createWebSockets } from '../../../src/adapter/ws/index.js';
import { createBalancer, staticEndpoints } from '../../../src/index.js';
import { FakeTransport } from '../../../src/testing/index.js';

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

const resolver = staticEndpoints([{ address: '127.0.0.1', port: 9 }]);

/** What takes options at each entry point. Throws, or rejects, if it does not take these. */
const entryPoints = {
  undici: (options: object) => {
    const dispatcher = createDispatcher('https://orders.shop', { resolver, ...options });
    open.push(() => dispatcher.destroy());
    return dispatcher;
  },
  'node:http': (options: object) => {
    const agent = createAgent('https://orders.shop', { resolver, ...options });
    open.push(() => agent.destroy());
    return agent;
  },
  'grpc-js': (options: object) => serviceChannelOptions({ resolver, ...options }),
  http2: (options: object) => {
    const client = createHttp2Client('https://orders.shop', { resolver, ...options });
    open.push(() => client.close());
    return client;
  },
  mysql2: (options: object) => {
    const cluster = createPoolCluster({ resolver, host: 'orders.shop', user: 'app', ...options });
    open.push(() => cluster.end());
    return cluster;
  },
  redis: (options: object) => {
    const primary = new Redis({ lazyConnect: true });
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', { resolver, ...options });
    open.push(() => replicas.close());
    return replicas;
  },
  pg: (options: object) => {
    const pool = createPool({ resolver, host: 'orders.shop', user: 'app', ...options });
    open.push(() => pool.end());
    return pool;
  },
  tcp: (options: object) => {
    const connector = createConnector('orders.shop:7000', { resolver, ...options });
    open.push(() => connector.close());
    return connector;
  },
  amqp: (options: object) => {
    const brokers = createBrokers('amqp://orders.shop', { resolver, ...options });
    open.push(() => brokers.close());
    return brokers;
  },
  ws: (options: object) => {
    const webSockets = createWebSockets('wss://orders.shop', { resolver, ...options });
    open.push(() => webSockets.close());
    return webSockets;
  },
  run: async (options: object) => {
    const balancer = createBalancer({ resolver, transport: new FakeTransport() });
    open.push(() => balancer.close());
    await balancer.run(() => {}, options);
    return { balancer, close: () => balancer.close() };
  },
} as const;

type EntryPoint = keyof typeof entryPoints;

/** Values that fit, by name. */
const values: Readonly<Record<string, unknown>> = {
  key: () => 'a',
  hashKey: () => 'a',
  connections: 2,
  connectionsPerPod: 2,
  connectionLimit: 2,
  max: 2,
  useH2c: false,
  h2c: false,
  maxConcurrentStreams: 10,
  maxStreamsPerConnection: 10,
  priority: () => 'default',
  deadlineMs: 1_000,
  queryTimeoutMs: 1_000,
  timeoutMs: 1_000,
  tls: {},
  ssl: {},
  askForReports: false,
  propagate: {},
  fallbackDispatcher: undefined,
  fallbackAgent: undefined,
  otherwise: undefined,
  role: undefined,
  writable: true,
  fallback: 'primary',
  maxLagMs: 1_000,
  replicaLag: { maxMs: 1_000 },
  balancer: () => {},
  onBalancer: () => {},
};

/** The rows of docs/decision/0019-option-names.md that are options: what each entry point calls the concept. */
const concepts: readonly [concept: string, names: readonly string[], at: Partial<Record<EntryPoint, string>>][] = [
  [
    'what hash pickers go by',
    ['key', 'hashKey'],
    { undici: 'key', 'node:http': 'key', 'grpc-js': 'key', http2: 'key', run: 'key' },
  ],
  [
    'connections per endpoint',
    ['connections', 'connectionsPerPod', 'connectionLimit', 'max'],
    {
      undici: 'connections',
      'node:http': 'connections',
      'grpc-js': 'connections',
      http2: 'connections',
      mysql2: 'connectionLimit',
      pg: 'max',
    },
  ],
  ['HTTP/2 in the clear', ['useH2c', 'h2c'], { undici: 'useH2c' }],
  [
    'calls at once on one connection',
    ['maxConcurrentStreams', 'maxStreamsPerConnection'],
    { undici: 'maxConcurrentStreams', 'grpc-js': 'maxConcurrentStreams', http2: 'maxConcurrentStreams' },
  ],
  [
    'who goes first where calls wait',
    ['priority'],
    { undici: 'priority', 'node:http': 'priority', 'grpc-js': 'priority', http2: 'priority', run: 'priority' },
  ],
  ['which servers get calls', ['role', 'writable', 'fallback'], { mysql2: 'role', pg: 'role', redis: 'role' }],
  [
    'how far behind a replica may be',
    ['maxLagMs', 'replicaLag'],
    { mysql2: 'maxLagMs', pg: 'maxLagMs', redis: 'maxLagMs' },
  ],
  [
    'what goes along with a call',
    ['propagate'],
    { undici: 'propagate', 'node:http': 'propagate', 'grpc-js': 'propagate' },
  ],
  [
    'time for a whole call',
    ['deadlineMs', 'timeoutMs'],
    { undici: 'deadlineMs', 'node:http': 'deadlineMs', run: 'deadlineMs' },
  ],
  ['time for a statement', ['queryTimeoutMs'], { mysql2: 'queryTimeoutMs' }],
  [
    'TLS settings',
    ['tls', 'ssl'],
    {
      undici: 'tls',
      'node:http': 'tls',
      http2: 'tls',
      mysql2: 'ssl',
      pg: 'ssl',
      tcp: 'tls',
      ws: 'tls',
    },
  ],
  [
    'whether servers are asked for reports',
    ['askForReports'],
    { undici: 'askForReports', 'node:http': 'askForReports', 'grpc-js': 'askForReports', http2: 'askForReports' },
  ],
  [
    'where other calls go',
    ['fallbackDispatcher', 'fallbackAgent', 'otherwise'],
    { undici: 'fallbackDispatcher', 'node:http': 'fallbackAgent' },
  ],
  ['what watches the balancing', ['balancer', 'onBalancer'], { 'grpc-js': 'onBalancer' }],
];

const cases = concepts.flatMap(([concept, names, at]) =>
  (Object.keys(entryPoints) as EntryPoint[]).flatMap((entryPoint) =>
    names.map((name) => ({ concept, entryPoint, name, isKnown: at[entryPoint] === name })),
  ),
);

describe('names of options', () => {
  it.each(cases)('$concept: $name at $entryPoint is known: $isKnown', async ({ entryPoint, name, isKnown }) => {
    // `run` is one call and takes its key and priority; elsewhere a rule reads them.
    const ofOne: Readonly<Record<string, unknown>> = { key: 'a', priority: 'critical' };
    const value = entryPoint === 'run' ? (ofOne[name] ?? values[name]) : values[name];
    const taken = (async () => entryPoints[entryPoint]({ [name]: value }))();
    if (isKnown) await expect(taken).resolves.toBeDefined();
    else
      await expect(taken).rejects.toMatchObject({
        code: 'EVENKEEL_OPTION',
        message: expect.stringContaining(`has no option "${name}"`),
      });
  });
});

/** What closes what an entry point returns: so that running calls finish, and so that they are cut. */
const closing: Readonly<Record<Exclude<EntryPoint, 'grpc-js' | 'run'>, readonly string[]>> = {
  undici: ['close', 'destroy'],
  'node:http': ['close', 'destroy'],
  http2: ['close'],
  mysql2: ['end'],
  redis: ['close'],
  pg: ['end'],
  tcp: ['close'],
  amqp: ['close'],
  ws: ['close'],
};

describe('what entry points return', () => {
  it.each(Object.entries(closing))('%s: its balancer, and %s to close it', (entryPoint, names) => {
    const made = entryPoints[entryPoint as keyof typeof closing]({});
    expect(made.balancer.snapshot()).toMatchObject({ state: expect.any(String), endpoints: expect.any(Array) });
    const methods = ['close', 'destroy', 'end'].filter((name) => typeof Reflect.get(made, name) === 'function');
    expect(methods).toEqual(names);
  });
});

describe('the value that switches an option off', () => {
  /** Options that mean what a library means by them. */
  const theirs = ['adapter/pg/options.ts: idleTimeoutMillis'];
  const root = new URL('../../../src/', import.meta.url);

  it("is false, or Infinity, and never a word such as 'off', or null", () => {
    const others: string[] = [];
    for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
      if (!/options\.ts$/.test(file)) continue;
      const text = readFileSync(new URL(file, root), 'utf8');
      for (const [, name, type = ''] of text.matchAll(/^ {2}readonly (\w+)\?: (.*);$/gm)) {
        // What functions of the application return is up to them.
        if (!type.includes('=>') && /\bnull\b|'(?:off|none|never|no|disabled)'/.test(type))
          others.push(`${file}: ${name}`);
      }
    }
    expect(others).toEqual(theirs);
  });
});
