/**
 * An application with OpenTelemetry and evenkeel. Each command of its parent process is a scenario, inside a span `caller` of its own:
 * `{ id, scenario, pods, options }`. Answers with `{ did: id, result, open }`.
 */
import { createRequire } from 'node:module';
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { outcomes, roundRobin, staticEndpoints, without } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createPoolCluster } from 'evenkeel/mysql2';
import { createAgent } from 'evenkeel/node-http';
import { instrumentTraces } from 'evenkeel/opentelemetry';
import { createPool } from 'evenkeel/pg';
import { createConnector } from 'evenkeel/tcp';
import { FakeResolver } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { ordersService } from './orders-service.mjs';

const require = createRequire(import.meta.url);
const grpc = require('@grpc/grpc-js');
const http = require('node:http');

const traces = process.env.TRACES === 'off' ? { open: 0 } : instrumentTraces(JSON.parse(process.env.TRACES ?? '{}'));
const tracer = trace.getTracer('application');
const origin = 'http://orders.shop:8080';

const connected = async (balancer, count) => {
  while (balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length < count) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};
/** In another async context than that of any caller. */
const resolver = new FakeResolver();
const later = (work, ms) => setTimeout(work, ms);

const common = {
  picker: roundRobin(),
  stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
  retry: { budget: { minPerSecond: 1_000 } },
};

async function dispatcher(pods, options = {}) {
  const made = createDispatcher(origin, { ...common, resolver: staticEndpoints(pods), ...options });
  await connected(made.balancer, pods.length);
  return made;
}
const get = async (made, options = {}) => {
  const { statusCode, body } = await made.request({ path: '/orders', method: 'GET', ...options });
  return { statusCode, text: await body.text() };
};
/** What went wrong, as a result. */
const failed = async (promise) =>
  promise.then(
    () => 'it succeeded',
    (error) => error.code ?? error.name,
  );
const within = (name, work) =>
  tracer.startActiveSpan(name, { kind: SpanKind.INTERNAL }, async (span) => {
    try {
      return await work();
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });

const OrdersClient = grpc.makeGenericClientConstructor(ordersService);
async function ordersClient(pods, options = {}) {
  let balancer;
  const made = new OrdersClient(
    serviceTarget('orders.shop:50051'),
    grpc.credentials.createInsecure(),
    serviceChannelOptions({
      resolver: staticEndpoints(pods),
      picker: roundRobin(),
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      ...options,
      onBalancer: (one) => {
        balancer = one;
      },
    }),
  );
  made.getChannel().getConnectivityState(true);
  await balancer.ready();
  await connected(balancer, pods.length);
  return made;
}
const call = (client, options) =>
  new Promise((resolve, reject) => {
    const running = client.Get('7', new grpc.Metadata(), {}, (error, answer) =>
      error ? reject(Object.assign(error, { code: grpc.status[error.code] })) : resolve(answer),
    );
    options?.begun?.(running);
  });
const retryPolicy = JSON.stringify({
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
});

const scenarios = {
  async undici({ pods, calls = 1 }) {
    const made = await dispatcher(pods);
    const results = await Promise.all(
      Array.from({ length: calls }, (_, index) => within(`caller ${index}`, () => get(made))),
    );
    await made.close();
    return results;
  },
  async 'undici: wait'({ pods }) {
    const late = new FakeResolver();
    const made = createDispatcher(origin, { ...common, resolver: late });
    later(() => late.update(...pods), 50);
    const result = await within('caller', () => get(made));
    await made.close();
    return result;
  },
  async 'undici: hedge'({ pods }) {
    const made = await dispatcher(pods, { hedge: { afterMs: 30 } });
    const result = await within('caller', () => get(made));
    await made.close();
    return result;
  },
  async 'undici: status'({ pods }) {
    const made = await dispatcher(pods, { retry: { ...common.retry, statuses: [503] } });
    const result = await within('caller', () => get(made));
    await made.close();
    return result;
  },
  async 'undici: abort'({ pods }) {
    const made = await dispatcher(pods);
    const caller = new AbortController();
    const result = within('caller', () => failed(get(made, { signal: caller.signal })));
    later(() => caller.abort(), 100);
    const told = await result;
    await made.destroy();
    return told;
  },
  async 'undici: fails'({ pods }) {
    const made = await dispatcher(pods);
    const result = await within('caller', () => failed(get(made, { method: 'POST', body: 'x' })));
    await made.close();
    return result;
  },
  async 'undici: closed'({ pods }) {
    const made = createDispatcher(origin, { ...common, resolver, waitTimeoutMs: 20 });
    const result = await within('caller', () => failed(get(made)));
    await made.close();
    return { result, pods: pods.length };
  },
  async 'node:http'({ pods, calls = 1 }) {
    const agent = createAgent(origin, { ...common, retry: undefined, resolver: staticEndpoints(pods) });
    await connected(agent.balancer, pods.length);
    const one = () =>
      new Promise((resolve, reject) => {
        const request = http.request(`${origin}/orders`, { agent }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode));
        });
        request.on('error', reject).end();
      });
    const results = await Promise.all(Array.from({ length: calls }, (_, index) => within(`caller ${index}`, one)));
    await agent.close();
    return results;
  },
  async grpc({ pods, calls = 1 }) {
    const client = await ordersClient(pods);
    const results = await Promise.all(
      Array.from({ length: calls }, (_, index) => within(`caller ${index}`, () => call(client))),
    );
    client.close();
    return results;
  },
  async 'grpc: retry'({ pods }) {
    const client = await ordersClient(pods, { 'grpc.service_config': retryPolicy });
    const result = await within('caller', () => call(client));
    client.close();
    return result;
  },
  async 'grpc: cancelled'({ pods }) {
    const client = await ordersClient(pods);
    const result = await within('caller', () =>
      failed(call(client, { begun: (running) => later(() => running.cancel(), 100) })),
    );
    client.close();
    return result;
  },
  async 'grpc: stream'({ pods }) {
    const client = await ordersClient(pods);
    const read = within('caller', async () => {
      const messages = [];
      for await (const message of client.List('7')) messages.push(message);
      return messages;
    });
    const result = await read;
    client.close();
    return result;
  },
  async mysql({ pods, calls = 1, login, warm = true }) {
    const cluster = createPoolCluster({
      resolver: staticEndpoints(pods),
      picker: roundRobin(),
      connectionLimit: 2,
      ...login,
    });
    if (warm) {
      await cluster.ready();
      const connections = await within('warms up', () => Promise.all(pods.map(() => cluster.getConnection())));
      for (const connection of connections) connection.release();
    }
    const results = await Promise.all(
      Array.from({ length: calls }, (_, index) =>
        within(`caller ${index}`, async () => {
          const [rows] = await cluster.query('SELECT ? AS n', [index]);
          return rows[0].n;
        }),
      ),
    );
    await within('checks out', async () => {
      const connection = await cluster.getConnection();
      await connection.query('SELECT 1');
      connection.release();
    });
    await within('fails', () => failed(cluster.query('SELECT nothing FROM nowhere')));
    await cluster.end();
    return results;
  },
  async pg({ pods, calls = 1, login }) {
    const pool = createPool({ resolver: staticEndpoints(pods), max: 2, ...login });
    const results = await Promise.all(
      Array.from({ length: calls }, (_, index) =>
        within(`caller ${index}`, async () => (await pool.query('SELECT $1::int AS n', [index])).rows[0].n),
      ),
    );
    await within('checks out', async () => {
      const client = await pool.connect();
      await client.query('SELECT 1');
      client.release();
    });
    await within('fails', () => failed(pool.query('SELECT nothing FROM nowhere')));
    await pool.end();
    return results;
  },
  async tcp({ pods }) {
    const connector = createConnector('broker.shop:5672', { resolver: staticEndpoints(pods) });
    await connector.balancer.ready();
    const socket = await within('caller', () => connector.connect());
    const { open } = traces;
    socket.destroy();
    await connector.close();
    return { open };
  },
};

process.on('message', async ({ id, scenario, ...input }) => {
  try {
    const result = await scenarios[scenario](input);
    // What ends after its caller has been told: the losers of hedges.
    for (let turn = 0; turn < 200 && traces.open > 0; turn++) await new Promise((resolve) => setTimeout(resolve, 10));
    process.send({ did: id, result, open: traces.open });
  } catch (error) {
    process.send({ did: id, error: String(error?.stack ?? error), open: traces.open });
  }
});
process.on('disconnect', () => process.exit());
process.send({ ports: {}, outcomes: Object.keys(outcomes).length });
