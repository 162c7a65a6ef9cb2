import { tracingChannel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { Metadata } from '@grpc/grpc-js';
import {
  type BalancingOptions,
  createBalancer,
  outcomes,
  random,
  staticEndpoints,
  type TracedAttempt,
  type TracedCall,
} from 'evenkeel';
import { createPoolCluster } from 'evenkeel/mysql2';
import { createAgent } from 'evenkeel/node-http';
import { createConnector } from 'evenkeel/tcp';
import { FakeTransport, seededRng } from 'evenkeel/testing';
import { createAppAgent, createDispatcher, type DispatcherOptions } from 'evenkeel/undici';
import { createWebSockets } from 'evenkeel/ws';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { application, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { connected as grpcConnected, ordersClient } from '../grpc-js/support/client.js';
import { Pods as GrpcPods } from '../grpc-js/support/pods.js';

/** Calls of each entry point, all at once. */
const CALLS = Number(process.env.EVENKEEL_TRACED_CALLS ?? 100);

/** Counts what begins and ends. */
class Ledger {
  readonly calls = new Map<TracedCall, number>();
  readonly attempts = new Map<TracedAttempt, number>();
  readonly faults: string[] = [];
  readonly #undo: (() => void)[] = [];

  constructor() {
    this.#watch('call', this.calls);
    this.#watch('attempt', this.attempts);
  }

  get open(): number {
    const counts = [...this.calls.values(), ...this.attempts.values()];
    return counts.filter((ends) => ends === 0).length;
  }

  stop(): void {
    for (const undo of this.#undo) undo();
  }

  #watch<T extends TracedCall | TracedAttempt>(name: string, seen: Map<T, number>): void {
    const channels = tracingChannel(`evenkeel:${name}`);
    const began = (message: T): void => {
      if (seen.has(message)) this.faults.push(`a ${name} began twice`);
      seen.set(message, 0);
    };
    const ended = (message: T): void => {
      const ends = seen.get(message);
      if (ends !== 0) this.faults.push(`a ${name} ended ${ends === undefined ? 'that never began' : 'twice'}`);
      seen.set(message, (ends ?? 0) + 1);
      if (message.outcome === undefined) this.faults.push(`a ${name} ended without an outcome`);
    };
    channels.start.subscribe(began as never);
    channels.asyncEnd.subscribe(ended as never);
    this.#undo.push(
      () => channels.start.unsubscribe(began as never),
      () => channels.asyncEnd.unsubscribe(ended as never),
    );
  }
}

let ledger: Ledger;
beforeEach(() => {
  ledger = new Ledger();
});
afterEach(() => ledger.stop());

/** Everything that began has ended, once. */
async function balanced(calls: number): Promise<void> {
  await until('every call and attempt has ended', () => ledger.open === 0);
  expect(ledger.faults).toEqual([]);
  expect(ledger.calls.size).toBe(calls);
  for (const attempt of ledger.attempts.keys()) expect(ledger.calls.has(attempt.call)).toBe(true);
}

const rng = seededRng(7);
const draw = (below: number): number => Math.floor(rng.next() * below);
/** How a call is given up, if it is. */
const given = (): { readonly signal?: AbortSignal } => {
  if (draw(3) > 0) return {};
  const caller = new AbortController();
  const ms = draw(60);
  if (ms === 0) queueMicrotask(() => caller.abort());
  else setTimeout(() => caller.abort(), ms);
  return { signal: caller.signal };
};
const paths = [
  '/',
  '/',
  '/bytes/100000',
  '/status/503',
  '/status/404',
  '/hang',
  '/hang-body',
  '/drip/3/5',
  '/reset',
  '/reset-body',
];
const anyPath = (): string => paths[draw(paths.length)] as string;
const settled = (work: Promise<unknown>): Promise<unknown> => work.catch(() => {});
const common = (pods: Pods): BalancingOptions => ({
  resolver: staticEndpoints(pods.endpoints),
  picker: random(),
  waitTimeoutMs: 500,
  retry: { budget: { minPerSecond: 10_000 } },
});

describe('whatever happens to a call, its trace ends once', () => {
  let pods: Pods;
  beforeAll(async () => {
    pods = await Pods.start(3);
  });
  afterAll(async () => {
    await pods[Symbol.asyncDispose]();
  });

  const kinds: readonly [string, DispatcherOptions][] = [
    ['plain', { deadlineMs: 300 }],
    ['with hedges and retries by status', { deadlineMs: 300, hedge: { afterMs: 20 }, retry: { statuses: [503] } }],
    ['with a limit and few connections', { deadlineMs: 300, connections: 4, maxWaiting: 100 }],
  ];
  it.each(kinds)('undici, %s', async (_, options) => {
    const orders = createDispatcher('http://orders.shop:8080', { ...common(pods), ...options });
    const one = async (index: number): Promise<void> => {
      const method = index % 5 === 0 ? 'POST' : 'GET';
      const { body } = await orders.request({
        path: anyPath(),
        method,
        ...(method === 'POST' && { body: 'x' }),
        ...given(),
      });
      body.on('error', () => {});
      if (draw(4) === 0) body.destroy();
      else await body.dump({ limit: 1e6, ...given() });
    };
    await Promise.all(Array.from({ length: CALLS }, (_unused, index) => settled(one(index))));
    // Destroyed while more are running.
    const last = Array.from({ length: 20 }, (_unused, index) => settled(one(index)));
    await orders.destroy();
    await Promise.all(last);
    await until('every call has begun', () => ledger.open === 0);
    expect(ledger.faults).toEqual([]);
    expect(ledger.calls.size).toBeGreaterThan(CALLS / 2);
  });

  it('undici: upgrades', async () => {
    const orders = createDispatcher('http://orders.shop:8080', common(pods));
    const upgrades = Array.from({ length: 10 }, () =>
      settled(orders.upgrade({ path: '/', protocol: 'echo', signal: AbortSignal.timeout(100) })),
    );
    await Promise.all(upgrades);
    await balanced(10);
    await orders.destroy();
  });

  it('the service agent', async () => {
    const agent = createAppAgent({ services: ['orders.shop'], options: () => common(pods) });
    // While it looks a host up it keeps a thousand requests waiting.
    await settled(
      agent.request({ origin: 'http://orders.shop:8080', path: '/', method: 'GET' }).then(({ body }) => body.dump()),
    );
    await Promise.all(
      Array.from({ length: CALLS - 1 }, () =>
        settled(
          agent
            .request({ origin: 'http://orders.shop:8080', path: '/', method: 'GET' })
            .then(({ body }) => body.dump()),
        ),
      ),
    );
    await balanced(CALLS);
    await agent.destroy();
  });

  it('node:http', async () => {
    const { retry: _none, ...rest } = common(pods);
    const agent = createAgent('http://orders.shop:8080', { ...rest, deadlineMs: 300 });
    const one = (): Promise<void> =>
      new Promise((resolve) => {
        const request = httpRequest(`http://orders.shop:8080${anyPath()}`, { agent, ...given() }, (response) => {
          response.on('error', () => {}).on('close', resolve);
          if (draw(4) === 0) response.destroy();
          else response.resume();
        });
        request.on('error', () => resolve()).on('close', resolve);
        if (draw(10) === 0) request.destroy();
        request.end();
      });
    await Promise.all(Array.from({ length: CALLS }, one));
    await until('all have ended', () => ledger.open === 0);
    expect(ledger.faults).toEqual([]);
    expect(ledger.calls.size).toBeGreaterThan(CALLS / 2);
    agent.destroy();
  });

  it('WebSockets and other long-lived connections', async () => {
    const sockets = createWebSockets('ws://chat.shop:8080', { resolver: staticEndpoints(pods.endpoints) });
    const connector = createConnector('broker.shop:5672', { resolver: staticEndpoints(pods.endpoints) });
    await sockets.balancer.ready();
    await connector.balancer.ready();
    await Promise.all([
      ...Array.from({ length: 20 }, async () => {
        const socket = new sockets.WebSocket('ws://chat.shop:8080/');
        socket.on('error', () => {}).on('open', () => socket.terminate());
        await once(socket, 'close');
      }),
      ...Array.from({ length: 20 }, async () => {
        const socket = await connector.connect(given()).catch(() => undefined);
        socket?.on('error', () => {});
        if (draw(2) === 0) socket?.destroy();
      }),
    ]);
    await until('all have ended', () => ledger.open === 0);
    expect(ledger.faults).toEqual([]);
    await sockets.close({ signal: AbortSignal.abort() });
    await connector.close({ signal: AbortSignal.abort() });
  });
});

describe('a subscriber that aborts the call as its attempt begins', () => {
  let pods: Pods;
  let giveUp = (): void => {};
  const began = (): void => giveUp();
  const { start } = tracingChannel('evenkeel:attempt');
  beforeAll(async () => {
    pods = await Pods.start(2);
  });
  afterAll(async () => {
    await pods[Symbol.asyncDispose]();
  });
  beforeEach(() => start.subscribe(began));
  afterEach(() => start.unsubscribe(began));
  const requests = async (): Promise<number> => {
    const all = await Promise.all([0, 1].map((index) => pods.at(index).stats()));
    return all.reduce((sum, stats) => sum + stats.requests, 0);
  };
  const idle = (balancer: { snapshot(): { endpoints: readonly { inFlight: number }[] } }): Promise<void> =>
    until('nothing runs', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));

  it.each([
    ['plain', {}],
    ['hedged', { hedge: { afterMs: 50 } }],
  ] as const)('undici, %s: nothing is sent', async (_, options) => {
    const orders = createDispatcher('http://orders.shop:8080', { ...common(pods), ...options });
    const before = await requests();
    const caller = new AbortController();
    giveUp = () => caller.abort();
    await expect(orders.request({ path: '/', method: 'GET', signal: caller.signal })).rejects.toThrow(/abort/i);
    await balanced(1);
    await idle(orders.balancer);
    expect(await requests()).toBe(before);
    await orders.close();
  });

  it('node:http: the request ends, and no call counts on its pod', async () => {
    const { retry: _none, ...rest } = common(pods);
    const agent = createAgent('http://orders.shop:8080', rest);
    const request = httpRequest('http://orders.shop:8080/', { agent });
    giveUp = () => request.destroy(new Error('enough'));
    request.end();
    const [error] = await once(request, 'error');
    expect(error).toMatchObject({ message: 'enough' });
    await balanced(1);
    await idle(agent.balancer);
    await agent.close();
  });

  it('a long-lived connection: none is kept', async () => {
    const connector = createConnector('broker.shop:5672', { resolver: staticEndpoints(pods.endpoints) });
    await connector.balancer.ready();
    const caller = new AbortController();
    giveUp = () => caller.abort(new Error('enough'));
    await expect(connector.connect({ signal: caller.signal })).rejects.toThrow('enough');
    await balanced(1);
    await idle(connector.balancer);
    await connector.close();
  });

  it('gRPC: the call is cancelled', async () => {
    const grpcPods = new GrpcPods();
    await grpcPods.start(1);
    const { client, balancer } = ordersClient({ resolver: staticEndpoints(grpcPods.endpoints) });
    await grpcConnected(balancer, 1);
    const code = await new Promise((resolve) => {
      const call = client.say({ text: 'x' }, new Metadata(), {}, (error) => resolve(error?.code));
      giveUp = () => call.cancel();
    });
    expect(code).toBe(1);
    await balanced(1);
    await idle(balancer);
    client.close();
    await grpcPods.stop();
  });
});

it('balancer.run', async () => {
  const transport = new FakeTransport();
  const balancer = createBalancer({
    resolver: staticEndpoints([
      { address: '10.0.0.1', port: 80 },
      { address: '10.0.0.2', port: 80 },
    ]),
    transport,
    retry: { budget: { minPerSecond: 1_000_000 } },
  });
  await balancer.ready();
  const errors = [Object.assign(new Error('reset'), { code: 'ECONNRESET' }), new Error('another')];
  const one = (): Promise<unknown> =>
    balancer.run(
      async (_, lease, signal) => {
        const what = draw(6);
        if (what === 0) throw errors[0];
        if (what === 1) throw errors[1];
        if (what === 2) lease.end(outcomes.overload);
        if (what === 3 && signal !== undefined) {
          await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        }
        return 1;
      },
      { idempotent: draw(2) === 0, ...given(), ...(draw(2) === 0 && { deadlineMs: 1 + draw(50) }) },
    );
  await Promise.all(Array.from({ length: CALLS }, () => settled(one())));
  await until('all have ended', () => ledger.open === 0);
  expect(ledger.faults).toEqual([]);
  await balancer.close();
});

it('gRPC', async () => {
  const pods = new GrpcPods();
  const [failing, slow] = await pods.start(3);
  const retryPolicy = {
    methodConfig: [
      {
        name: [{}],
        retryPolicy: {
          maxAttempts: 3,
          initialBackoff: '0.01s',
          maxBackoff: '0.02s',
          backoffMultiplier: 1,
          retryableStatusCodes: ['UNAVAILABLE'],
        },
      },
    ],
  };
  const hedgingPolicy = {
    methodConfig: [
      { name: [{}], hedgingPolicy: { maxAttempts: 2, hedgingDelay: '0.01s', nonFatalStatusCodes: ['UNAVAILABLE'] } },
    ],
  };
  for (const config of [retryPolicy, hedgingPolicy]) {
    const { client, balancer } = ordersClient({
      resolver: staticEndpoints(pods.endpoints),
      picker: random(),
      'grpc.service_config': JSON.stringify(config),
    });
    await grpcConnected(balancer, 3);
    await failing?.set({ fail: 14 });
    await slow?.set({ delayMs: 30 });
    const one = (): Promise<void> =>
      new Promise((resolve) => {
        if (draw(4) === 0) {
          const stream = client.count({ numbers: 5, pause_ms: 5 });
          stream.on('data', () => draw(10) === 0 && stream.cancel());
          stream.on('error', () => resolve()).on('end', resolve);
          return;
        }
        const deadline = draw(3) === 0 ? Date.now() + draw(60) : Date.now() + 5_000;
        const call = client.say({ text: 'x' }, new Metadata(), { deadline }, () => resolve());
        if (draw(4) === 0) setTimeout(() => call.cancel(), draw(40));
      });
    await Promise.all(Array.from({ length: CALLS }, one));
    const last = Array.from({ length: 20 }, one);
    client.close();
    await Promise.all(last);
    await until('all have ended', () => ledger.open === 0);
    expect(ledger.faults).toEqual([]);
  }
  expect(ledger.calls.size).toBe(2 * (CALLS + 20));
  await pods.stop();
});

it.skipIf(noMariadb)(titled('MySQL'), async () => {
  await using databases = await startMariadbs(2);
  const cluster = createPoolCluster({
    resolver: staticEndpoints(databases.endpoints),
    connectionLimit: 4,
    waitTimeoutMs: 300,
    ...application,
  });
  const sql = ['SELECT 1', 'SELECT SLEEP(0.02)', 'SELECT nothing FROM nowhere', 'SELEC'];
  const one = async (): Promise<void> => {
    const what = draw(8);
    if (what === 0) {
      const connection = await cluster.getConnection();
      await settled(connection.query(sql[draw(4)] as string));
      if (draw(2) === 0) connection.release();
      else connection.destroy();
    } else if (what === 1) {
      for await (const _ of cluster.query('SELECT 1').stream()) if (draw(2) === 0) break;
    } else await cluster.query({ sql: sql[draw(4)] as string, timeout: draw(3) === 0 ? 10 : 1_000, idempotent: true });
  };
  await Promise.all(Array.from({ length: Math.min(CALLS, 1_000) }, () => settled(one())));
  const last = Array.from({ length: 20 }, () => settled(one()));
  await cluster.end();
  await Promise.all(last);
  await until('all have ended', () => ledger.open === 0);
  expect(ledger.faults).toEqual([]);
});
