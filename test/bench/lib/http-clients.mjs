/**
 * What people send HTTP requests with, all against the same pods and each with as many connections as the others: 8 per pod,
 * or as many in all where it knows one address. Styles are compared with their like only.
 */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import axios from 'axios';
import { peakEwma } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';
import { Agent, BalancedPool, interceptors, Pool, RoundRobinPool } from 'undici';
import { PollingList } from './polling-list.mjs';

export const SERVICE = 'http://orders.shop:8080';
const PATH = '/v1/orders/42';
export const CONNECTIONS_PER_POD = 8;

/**
 * @typedef {object} ClientContext
 * @property {import('./pods.mjs').Pods} pods
 * @property {() => import('evenkeel').Resolver} resolver how evenkeel finds them
 * @property {readonly import('./proxies.mjs').LocalProxy[]} proxies
 *
 * @typedef {object} HttpClient
 * @property {() => Promise<unknown>} call one request, to the end of its body
 * @property {() => unknown} close
 *
 * @typedef {object} HttpClientKind
 * @property {string} name
 * @property {'undici' | 'fetch' | 'node:http' | 'axios'} style
 * @property {true} [healthyOnly] what it shows does not depend on something being wrong
 * @property {(context: ClientContext) => HttpClient} create
 */

const PER_CONNECTION = 'balanced per connection';
export const names = Object.freeze({
  hand: 'loop over one undici Pool per pod',
  ours: 'evenkeel',
  oursPeakEwma: 'evenkeel, `peakEwma()`',
  balanced: 'undici BalancedPool',
  dns: 'undici dns interceptor',
  roundRobin: `undici RoundRobinPool, ${PER_CONNECTION}`,
  onePool: `undici Pool, ${PER_CONNECTION}`,
  haproxy: 'undici Pool, through HAProxy',
  nginx: 'undici Pool, through nginx',
  fetch: `fetch, ${PER_CONNECTION}`,
  fetchHand: 'fetch over a loop of undici Pools',
  fetchOurs: 'fetch with evenkeel',
  http: `node:http keep-alive Agent, ${PER_CONNECTION}`,
  httpOurs: 'node:http with evenkeel',
  axios: `axios, keep-alive Agent, ${PER_CONNECTION}`,
  axiosOurs: 'axios with evenkeel',
  postHand: 'POST over a loop of undici Pools',
  postOurs: 'POST with evenkeel',
});

/** The `request` of undici, in the same call style for all. @param {import('undici').Dispatcher} dispatcher @param {string} [origin] @param {'GET' | 'POST'} [method] */
function through(dispatcher, origin, method = 'GET') {
  const options = /** @type {any} */ ({ origin, path: PATH, method });
  return async () => {
    const { statusCode, body } = await dispatcher.request(options);
    await body.dump();
    if (statusCode !== 200) throw new Error(`status ${statusCode}`);
  };
}

/** The global fetch. @param {() => import('undici').Dispatcher} dispatcher */
function fetchThrough(dispatcher) {
  const url = `${SERVICE}${PATH}`;
  return async () => {
    const response = await fetch(url, /** @type {any} */ ({ dispatcher: dispatcher() }));
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`status ${response.status}`);
  };
}

/** node:http in its plainest form. @param {HttpAgent} agent */
function plainRequest(agent) {
  const options = { agent, host: 'orders.shop', port: 8080, path: PATH };
  return () =>
    new Promise((resolve, reject) => {
      httpRequest(options, (response) => {
        response.resume();
        response.on('error', reject);
        response.on('end', () => {
          if (response.statusCode === 200) resolve(undefined);
          else reject(new Error(`status ${response.statusCode}`));
        });
      })
        .on('error', reject)
        .end();
    });
}

/** @param {HttpAgent} agent */
function axiosThrough(agent) {
  const client = axios.create({ httpAgent: agent, proxy: false });
  return () => client.get(`${SERVICE}${PATH}`);
}

/** The loop people write, over a list they ask for once a second. @param {import('./pods.mjs').Pods} pods @param {'GET' | 'POST'} [method] */
function handLoop(pods, method) {
  const list = new PollingList(pods, {
    add: (origin) => {
      const pool = new Pool(origin, { connections: CONNECTIONS_PER_POD });
      return { pool, call: through(pool, undefined, method) };
    },
    remove: ({ pool }) => void pool.close(),
  });
  let turn = 0;
  return {
    next: () => /** @type {(typeof list.members)[number]} */ (list.members[turn++ % list.members.length]),
    close: () => list.close(),
  };
}

/** An Agent whose connections each go to a pod at random. @param {import('./pods.mjs').Pods} pods */
function keepAliveAgent(pods) {
  const agent = new HttpAgent({ keepAlive: true, maxSockets: connectionsInAll(pods) });
  agent.createConnection = pods.connectAny;
  return agent;
}

/** @param {import('./pods.mjs').Pods} pods */
const connectionsInAll = (pods) => pods.ready.length * CONNECTIONS_PER_POD;

/** @param {ClientContext} context @param {object} [more] */
const ourDispatcher = ({ resolver }, more) =>
  createDispatcher(SERVICE, { resolver: resolver(), connections: CONNECTIONS_PER_POD, ...more });

/** @param {string} name @param {HttpClientKind['create']} create @returns {HttpClientKind} */
const undiciStyle = (name, create) => ({ name, style: 'undici', create });

/** @param {import('undici').Dispatcher} dispatcher @param {string} [origin] */
const overUndici = (dispatcher, origin) => ({ call: through(dispatcher, origin), close: () => dispatcher.destroy() });

/** @param {string} name @param {string} proxyName */
const overProxy = (name, proxyName) =>
  undiciStyle(name, ({ pods, proxies }) => {
    const port = proxies.find((proxy) => proxy.name === proxyName)?.port;
    return overUndici(new Pool(`http://127.0.0.1:${port}`, { connections: connectionsInAll(pods) }));
  });

/** @type {readonly HttpClientKind[]} */
const always = [
  undiciStyle(names.hand, ({ pods }) => {
    const loop = handLoop(pods);
    return { call: () => loop.next().call(), close: loop.close };
  }),
  undiciStyle(names.ours, (context) => overUndici(ourDispatcher(context), SERVICE)),
  undiciStyle(names.balanced, ({ pods }) => {
    const pool = new BalancedPool([], { connections: CONNECTIONS_PER_POD });
    const list = new PollingList(pods, {
      add: (origin) => {
        pool.addUpstream(origin);
        return origin;
      },
      remove: (origin) => void pool.removeUpstream(origin),
    });
    return {
      call: through(pool),
      close: () => {
        list.close();
        return pool.destroy();
      },
    };
  }),
  undiciStyle(names.roundRobin, ({ pods }) =>
    overUndici(new RoundRobinPool(SERVICE, { connections: connectionsInAll(pods), connect: pods.asKubeProxy })),
  ),
  undiciStyle(names.onePool, ({ pods }) =>
    overUndici(new Pool(SERVICE, { connections: connectionsInAll(pods), connect: pods.asKubeProxy })),
  ),
  {
    name: names.fetch,
    style: 'fetch',
    create: ({ pods }) => {
      const agent = new Agent({ connections: connectionsInAll(pods), connect: pods.asKubeProxy });
      return { call: fetchThrough(() => agent), close: () => agent.destroy() };
    },
  },
  {
    name: names.fetchHand,
    style: 'fetch',
    create: ({ pods }) => {
      const loop = handLoop(pods);
      return { call: fetchThrough(() => loop.next().pool), close: loop.close };
    },
  },
  {
    name: names.fetchOurs,
    style: 'fetch',
    create: (context) => {
      const dispatcher = ourDispatcher(context);
      return { call: fetchThrough(() => dispatcher), close: () => dispatcher.destroy() };
    },
  },
  {
    name: names.http,
    style: 'node:http',
    create: ({ pods }) => {
      const agent = keepAliveAgent(pods);
      return { call: plainRequest(agent), close: () => agent.destroy() };
    },
  },
  {
    name: names.axios,
    style: 'axios',
    create: ({ pods }) => {
      const agent = keepAliveAgent(pods);
      return { call: axiosThrough(agent), close: () => agent.destroy() };
    },
  },
];

/** Requests that are not sent twice: they wait until a connection has rested since its last answer. @type {readonly HttpClientKind[]} */
const posts = [
  {
    ...undiciStyle(names.postHand, ({ pods }) => {
      const loop = handLoop(pods, 'POST');
      return { call: () => loop.next().call(), close: loop.close };
    }),
    healthyOnly: true,
  },
  {
    ...undiciStyle(names.postOurs, (context) => {
      const dispatcher = ourDispatcher(context);
      return { call: through(dispatcher, SERVICE, 'POST'), close: () => dispatcher.destroy() };
    }),
    healthyOnly: true,
  },
];

/** Where one address stands for many, as headless DNS has it: pods need addresses of their own and one port. */
const dnsInterceptor = undiciStyle(names.dns, ({ pods }) => {
  const agent = new Agent({ connections: CONNECTIONS_PER_POD });
  const maxTTL = 1_000;
  const dispatcher = agent.compose(
    interceptors.dns({
      maxTTL,
      dualStack: false,
      affinity: 4,
      lookup: (_origin, _options, callback) =>
        callback(
          null,
          pods.ready.map(({ address }) => ({ address, family: 4, ttl: maxTTL })),
        ),
    }),
  );
  const [{ port }] = /** @type {[import('./pods.mjs').PodInfo]} */ (/** @type {unknown} */ (pods.ready));
  return { call: through(dispatcher, `http://orders.shop:${port}`), close: () => agent.destroy() };
});

/** @returns {Promise<((context: ClientContext) => HttpAgent & { close(): Promise<void> }) | undefined>} */
async function ourAgent() {
  // Not written out: the entry point is built apart from this.
  const entryPoint = 'evenkeel/node-http';
  const { createAgent } = await import(entryPoint).catch(() => ({ createAgent: undefined }));
  if (createAgent === undefined) return undefined;
  return ({ resolver }) => createAgent(SERVICE, { resolver: resolver(), connections: CONNECTIONS_PER_POD });
}

/**
 * Every kind of client this machine can run; what is missing is told apart.
 * @param {{ haveAddresses: boolean, proxies: readonly { name: string }[] }} have
 * @returns {Promise<HttpClientKind[]>}
 */
export async function httpClientKinds({ haveAddresses, proxies }) {
  const kinds = [...always, ...posts];
  if (haveAddresses) kinds.push(dnsInterceptor);
  if (proxies.some(({ name }) => name === 'HAProxy')) kinds.push(overProxy(names.haproxy, 'HAProxy'));
  if (proxies.some(({ name }) => name === 'nginx')) kinds.push(overProxy(names.nginx, 'nginx'));
  const agentOf = await ourAgent();
  if (agentOf !== undefined) {
    for (const { name, style, over } of /** @type {const} */ ([
      { name: names.httpOurs, style: 'node:http', over: plainRequest },
      { name: names.axiosOurs, style: 'axios', over: axiosThrough },
    ])) {
      kinds.push({
        name,
        style,
        create: (context) => {
          const agent = agentOf(context);
          return { call: over(agent), close: () => agent.close() };
        },
      });
    }
  }
  const order = /** @type {string[]} */ (Object.values(names));
  return kinds.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
}

/** Ours by measured time rather than by calls in flight, for the scene with a slow pod. */
export const peakEwmaKind = undiciStyle(names.oursPeakEwma, (context) =>
  overUndici(ourDispatcher(context, { load: peakEwma() }), SERVICE),
);
