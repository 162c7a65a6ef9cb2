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
/** How much memory this process may have in all, in MB; its heap is limited by Node. */
const MEMORY_MB = 2_000;
/** What the error of a call says whose response had begun: no client may repeat such a call. */
const BEGUN = 'after the head of the response';
/** @param {Error & { code?: string }} error @returns {never} */
function begun({ code, message, cause }) {
  throw Object.assign(new Error(`${BEGUN}: ${message}`, { cause }), { code });
}
/** @type {import('evenkeel').Balancer<never> | undefined} */
let balancer;

/**
 * How many attempts failed on each pod, by its port, and after how many of them the call failed. @type {Record<string, { attempts: number, calls: number }>}
 */
const cut = {};
const observer = {
  /** @param {import('evenkeel').ObserverEvents['attemptEnded']} event */
  attemptEnded({ endpoint, outcome, retrying }) {
    if (outcome.kind !== 'failure') return;
    cut[endpoint.port] ??= { attempts: 0, calls: 0 };
    const counts = /** @type {{ attempts: number, calls: number }} */ (cut[endpoint.port]);
    counts.attempts++;
    if (!retrying) counts.calls++;
  },
};

/** undici 8, for evenkeel as well. */
function undici8() {
  // Node has it from 22.15 on; the types of an older one do not.
  /** @type {any} */ (nodeModule).registerHooks({
    resolve: (/** @type {string} */ name, /** @type {object} */ context, /** @type {Function} */ next) =>
      next(name === 'undici' ? 'undici8' : name, context),
  });
  return import('undici');
}

/** A GET or a POST, by turns. @param {number} number */
function orderOf(number) {
  const signal = AbortSignal.timeout(LIMIT_MS);
  if (number % 2 === 0) {
    const path = '/shop.Orders/Get?connect=v1&encoding=json&message=%22wait%205%22';
    return { method: /** @type {const} */ ('GET'), path, signal };
  }
  const headers = { 'content-type': 'application/json' };
  return { method: /** @type {const} */ ('POST'), path: '/shop.Orders/Say', headers, body: '"wait 5"', signal };
}

/** @param {number} status @param {string} text */
function checkAnswer(status, text) {
  if (status !== 200 || !text.includes('wait 5')) throw new Error(`${status} ${text}`);
}

/** Two kinds of calls by turns, which last some 5 ms each. @type {Record<string, () => Promise<(number: number) => Promise<void>>>} */
const clients = {
  /** GETs and POSTs. */
  async h2c() {
    const { Agent } = await undici8();
    const { createDispatcher } = await import('evenkeel/undici');
    const orders = isStock ? undefined : createDispatcher(service, { resolver, observer, useH2c: true });
    balancer = /** @type {any} */ (orders?.balancer);
    const dispatcher = orders ?? new Agent(/** @type {any} */ ({ useH2c: true }));
    return async (number) => {
      const { path, ...request } = orderOf(number);
      const { statusCode, body } = await dispatcher.request({ origin: service, path, ...request });
      checkAnswer(statusCode, await body.text().catch(begun));
    };
  },
  /** The same through `fetch`: the global one, or undici's own if stock, as the global one has no HTTP/2 of version 8 on every Node. */
  async fetch() {
    const { Agent, fetch: fetchOfUndici } = await undici8();
    const { createFetch } = await import('evenkeel/undici');
    const orders = isStock ? undefined : createFetch(service, { resolver, observer, useH2c: true });
    balancer = /** @type {any} */ (orders?.balancer);
    const dispatcher = isStock ? new Agent(/** @type {any} */ ({ useH2c: true })) : undefined;
    return async (number) => {
      const { path, ...request } = orderOf(number);
      const response = await (orders?.(path, request) ??
        fetchOfUndici(`${service}${path}`, { ...request, dispatcher }));
      checkAnswer(response.status, await response.text().catch(begun));
    };
  },
  /** Unary calls and streams of the server's. */
  async Connect() {
    const { createClient } = await import('@connectrpc/connect');
    const { createConnectTransport } = await import('@connectrpc/connect-node');
    const { createSessionManager } = await import('evenkeel/http2');
    const { Orders } = await import('../../../support/pods/orders-service.mjs');
    const sessionManager = isStock ? undefined : createSessionManager(service, { resolver, observer });
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
  gRPC: () => grpc({}),
  async 'gRPC-4'() {
    const { roundRobin } = await import('evenkeel');
    return grpc({ picker: roundRobin(), connections: { min: 1, max: 4 } });
  },
};

/** Unary calls and streams of the server's. @param {import('evenkeel/grpc-js').GrpcOptions} more */
async function grpc(more) {
  const { credentials, loadPackageDefinition } = await import('@grpc/grpc-js');
  const { loadSync } = await import('@grpc/proto-loader');
  const { serviceChannelOptions, serviceTarget } = await import('evenkeel/grpc-js');
  const proto = loadSync(fileURLToPath(new URL('../../grpc-js/support/echo.proto', import.meta.url)), {
    defaults: true,
  });
  const Echo = /** @type {any} */ (loadPackageDefinition(proto)).test.v1.Echo;
  const options = serviceChannelOptions({
    ...more,
    resolver,
    observer,
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
}

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
      const { message, cause } = /** @type {Error} */ (error);
      // Errors of `fetch` say why in their cause.
      const code = /** @type {any} */ (error).code ?? /** @type {any} */ (cause)?.code ?? cause;
      const kind = (['h2c', 'fetch'].includes(protocol) ? ['GET', 'POST'] : ['unary', 'stream'])[number % 2];
      const reason = cause instanceof Error ? `${message}, ${cause.message}` : message;
      const why = `${kind}: ${code} ${reason}`.replaceAll(/\d{4,}|\d+\.\d+/g, 'n').slice(0, 160);
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
    cut,
    connected: pods?.filter((pod) => pod.state === 'ready').length,
  });
});
setInterval(() => {
  const usedMb = Math.round(process.memoryUsage.rss() / 1e6);
  if (usedMb < MEMORY_MB) return;
  console.error(`the client has ${usedMb} MB`);
  process.exit(1);
}, 500).unref();
process.send?.({});
