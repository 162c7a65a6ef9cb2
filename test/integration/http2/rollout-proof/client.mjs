/**
 * The client of one row: `callers` calls at a time to the Service, one after the other each. Answers each message of `main.mjs` with the
 * counts; a message with `endpoints` is what a watch of slices would say, and with `stop` the last one.
 */
import * as nodeModule from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { FakeResolver } from 'evenkeel/testing';

const [protocol = '', how = '', servicePort = '', callers = '1'] = process.argv.slice(2);
const isStock = how === 'stock';
const resolver = new FakeResolver();
const service = isStock ? `http://127.0.0.1:${servicePort}` : 'http://orders.shop:8080';
/** When a call that has no answer counts as failed, in ms. */
const LIMIT_MS = 10_000;
/** What the error of a call says whose response had begun: no client may repeat such a call. */
const BEGUN = 'after the head of the response';
/** @type {import('evenkeel').Balancer<never> | undefined} */
let balancer;

/** Two kinds of calls by turns, which last some 5 ms each. @type {Record<string, () => Promise<(number: number) => Promise<void>>>} */
const clients = {
  /** GETs and POSTs. */
  async h2c() {
    // Node has it from 22.15 on; the types of an older one do not.
    /** @type {any} */ (nodeModule).registerHooks({
      resolve: (/** @type {string} */ name, /** @type {object} */ context, /** @type {Function} */ next) =>
        next(name === 'undici' ? 'undici8' : name, context),
    });
    const { Agent } = await import('undici');
    const { createDispatcher } = await import('evenkeel/undici');
    const orders = isStock ? undefined : createDispatcher(service, { resolver, useH2c: true });
    balancer = /** @type {any} */ (orders?.balancer);
    const dispatcher = orders ?? new Agent(/** @type {any} */ ({ useH2c: true }));
    const headers = { 'content-type': 'application/json' };
    return async (number) => {
      const isGet = number % 2 === 0;
      const { statusCode, body } = await dispatcher.request({
        origin: service,
        method: isGet ? 'GET' : 'POST',
        path: isGet ? '/shop.Orders/Get?connect=v1&encoding=json&message=%22wait%205%22' : '/shop.Orders/Say',
        ...(!isGet && { headers, body: '"wait 5"' }),
        signal: AbortSignal.timeout(LIMIT_MS),
      });
      const text = await body.text().catch((/** @type {Error & { code?: string }} */ { code, message }) => {
        throw Object.assign(new Error(`${BEGUN}: ${message}`), { code });
      });
      if (statusCode !== 200 || !text.includes('wait 5')) throw new Error(`${statusCode} ${text}`);
    };
  },
  /** Unary calls and streams of the server's. */
  async Connect() {
    const { createClient } = await import('@connectrpc/connect');
    const { createConnectTransport } = await import('@connectrpc/connect-node');
    const { createSessionManager } = await import('evenkeel/http2');
    const { Orders } = await import('../../../support/pods/orders-service.mjs');
    const sessionManager = isStock ? undefined : createSessionManager(service, { resolver });
    balancer = /** @type {any} */ (sessionManager?.balancer);
    const orders = createClient(
      Orders,
      createConnectTransport({ baseUrl: service, httpVersion: '2', ...(sessionManager && { sessionManager }) }),
    );
    return async (number) => {
      const options = { timeoutMs: LIMIT_MS };
      if (number % 2 === 0) {
        await orders.say({ value: 'wait 5' }, options);
        return;
      }
      let messages = 0;
      for await (const _ of orders.count({ value: 'count 20' }, options)) messages++;
      if (messages !== 20) throw new Error(`only ${messages} messages`);
    };
  },
  /** Unary calls and streams of the server's. */
  async gRPC() {
    const { credentials, loadPackageDefinition } = await import('@grpc/grpc-js');
    const { loadSync } = await import('@grpc/proto-loader');
    const { serviceChannelOptions, serviceTarget } = await import('evenkeel/grpc-js');
    const proto = loadSync(fileURLToPath(new URL('../../grpc-js/support/echo.proto', import.meta.url)), {
      defaults: true,
    });
    const Echo = /** @type {any} */ (loadPackageDefinition(proto)).test.v1.Echo;
    const options = serviceChannelOptions({
      resolver,
      onBalancer: (made) => {
        balancer = /** @type {any} */ (made);
      },
    });
    const echo = isStock
      ? new Echo(`127.0.0.1:${servicePort}`, credentials.createInsecure())
      : new Echo(serviceTarget('orders.shop:50051'), credentials.createInsecure(), options);
    return (number) =>
      new Promise((resolve, reject) => {
        const deadline = Date.now() + LIMIT_MS;
        if (number % 2 === 0) {
          echo.say({ text: 'hello' }, { deadline }, (/** @type {Error | null} */ error) =>
            error ? reject(error) : resolve(),
          );
          return;
        }
        let messages = 0;
        echo
          .count({ numbers: 5, pauseMs: 1 }, { deadline })
          .on('data', () => messages++)
          .on('error', reject)
          .on('end', () => (messages === 5 ? resolve() : reject(new Error(`only ${messages} messages`))));
      });
  },
};

const call = await /** @type {() => Promise<(number: number) => Promise<void>>} */ (clients[protocol])();
const state = { calls: 0, answered: 0 };
/** @type {Record<string, number>} */
const failed = {};
let isOver = false;
/** @type {Promise<void>[]} */
let running = [];

async function caller() {
  while (!isOver) {
    const number = state.calls++;
    try {
      await call(number);
      state.answered++;
    } catch (error) {
      const { code, message } = /** @type {Error & { code?: unknown }} */ (error);
      const kind = (protocol === 'h2c' ? ['GET', 'POST'] : ['unary', 'stream'])[number % 2];
      const why = `${kind}: ${code} ${message}`.replaceAll(/\d{4,}|\d+\.\d+/g, 'n').slice(0, 160);
      failed[why] = (failed[why] ?? 0) + 1;
      // As a program that fails would not call again at once.
      await sleep(10);
    }
  }
}

process.on('message', async (/** @type {any} */ { id, endpoints, stop }) => {
  if (endpoints !== undefined) {
    resolver.update(
      ...endpoints.map((/** @type {{ port: number, terminating: boolean }} */ { port, terminating }) => ({
        address: '127.0.0.1',
        port,
        conditions: { ready: !terminating, serving: true, terminating },
      })),
    );
    if (running.length === 0) running = Array.from({ length: Number(callers) }, caller);
  }
  if (stop) {
    isOver = true;
    await Promise.all(running);
  }
  const pods = balancer?.snapshot().endpoints;
  process.send?.({
    id,
    ...state,
    failed,
    connected: pods?.filter((pod) => pod.state === 'ready').length,
    running: pods && Object.fromEntries(pods.map(({ address, inFlight }) => [address.split(':')[1], inFlight])),
  });
});
process.send?.({});
