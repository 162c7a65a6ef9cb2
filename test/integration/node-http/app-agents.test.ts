import { once } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import replyFrom from '@fastify/reply-from';
import axios from 'axios';
import { type AppAgents, type AppAgentsOptions, createAppAgents } from 'evenkeel/node-http';
import express from 'express';
import fastify from 'fastify';
import got from 'got';
import { createProxyMiddleware } from 'http-proxy-middleware';
import needle from 'needle';
import fetch from 'node-fetch';
import superagent from 'superagent';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { codeOf, send } from './support/request.js';

/** The object that programs assign to, as `require` and a default import give it. */
const nodeHttp = createRequire(import.meta.url)('node:http') as { globalAgent: http.Agent };

let world: DiscoveryWorld;
let pods: Pods;
let outside: Pod;
let agents: AppAgents;
const origin = 'http://orders.shop:8080';

beforeAll(async () => {
  [pods, outside] = await Promise.all([Pods.start(3), Pod.start({ name: 'outside' })]);
});
afterAll(async () => {
  await pods[Symbol.asyncDispose]();
  await outside.kill();
});
beforeEach(async () => {
  world = await DiscoveryWorld.create();
  exist('orders', pods);
});
afterEach(async () => {
  await agents.destroy();
  await world[Symbol.asyncDispose]();
});

/** The Service as the API server and DNS know it. */
function exist(name: string, members: Pods, port = 8080): void {
  world.dns.kubernetes.set({
    namespace: 'shop',
    name,
    clusterIPs: ['127.0.0.1'],
    ports: [{ name: 'http', port }],
  });
  world.api
    .service('shop', name, { ports: [{ name: 'http', port, targetPort: 'http' }] })
    .setPods(members.all.map((pod) => ({ name: pod.name, address: '127.0.0.1', ports: { http: pod.port } })));
}

function open(options: AppAgentsOptions = {}): AppAgents {
  agents = createAppAgents({ discovery: world.options({ allowAddresses: ['loopback'] }), ...options });
  return agents;
}

interface Answer {
  readonly pod: string;
  readonly host: string;
  readonly url: string;
}
type Get = (url: string) => Promise<Answer>;

const plain: Get = async (url) => JSON.parse((await send(agents.http, url)).body) as Answer;

/** Programs of users, with no agent in their code: they use the global one. */
const clients: Record<string, Get> = {
  'http.get': (url) =>
    new Promise((resolve, reject) => {
      http
        .get(url, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk: string) => {
            text += chunk;
          });
          response.on('end', () => resolve(JSON.parse(text) as Answer));
        })
        .on('error', reject);
    }),
  axios: async (url) => (await axios.get<Answer>(url, { proxy: false, adapter: 'http' })).data,
  got: (url) => got(url).json<Answer>(),
  'node-fetch': async (url) => (await (await fetch(url)).json()) as Answer,
  // It uses no global agent: without one it opens a connection per request.
  superagent: async (url) => (await superagent.get(url).agent(agents.http)).body as Answer,
  needle: async (url) => (await needle('get', url, { json: true })).body as Answer,
};

describe('agents for a whole app', () => {
  let former: http.Agent;
  beforeEach(() => {
    former = nodeHttp.globalAgent;
  });

  it.each(Object.entries(clients))(
    'as the global agent: %s reaches every pod and hosts outside',
    async (_name, get) => {
      // A program assigns to it; a module's namespace cannot.
      nodeHttp.globalAgent = open().http;
      try {
        const answers = await Promise.all(Array.from({ length: 30 }, () => get(`${origin}/v1/orders/42`)));
        expect(new Set(answers.map(({ pod }) => pod)).size).toBe(3);
        expect(answers[0]).toMatchObject({ host: 'orders.shop:8080', url: '/v1/orders/42' });
        expect(await get(`http://127.0.0.1:${outside.port}/x`)).toMatchObject({ pod: 'outside', url: '/x' });
      } finally {
        nodeHttp.globalAgent = former;
      }
      expect(agents.snapshot().services.map(({ origin: first }) => first)).toEqual([origin]);
    },
  );

  const gateways: Record<string, () => Promise<{ readonly port: number; close(): unknown }>> = {
    'http-proxy-middleware': async () => {
      const app = express().use(createProxyMiddleware({ target: origin, agent: agents.http }));
      const server = app.listen(0, '127.0.0.1');
      await once(server, 'listening');
      return { port: (server.address() as AddressInfo).port, close: () => server.close() };
    },
    '@fastify/reply-from': async () => {
      const app = fastify();
      await app.register(replyFrom, {
        base: origin,
        http: { agents: { 'http:': agents.http, 'https:': agents.https } },
      });
      app.get('/*', (request, reply) => reply.from(request.url));
      await app.listen({ port: 0, host: '127.0.0.1' });
      return { port: (app.server.address() as AddressInfo).port, close: () => app.close() };
    },
  };
  it.each(Object.entries(gateways))('%s forwards to every pod', async (_name, start) => {
    open();
    const { port, close } = await start();
    const direct = new http.Agent({ keepAlive: true });
    const seen = new Set<string>();
    for (let round = 0; round < 12; round++) {
      const one = (): Promise<Answer> =>
        send(direct, `http://127.0.0.1:${port}/v1/orders/42`).then(({ body }) => JSON.parse(body) as Answer);
      for (const { pod } of await Promise.all([one(), one(), one(), one()])) seen.add(pod);
    }
    expect(seen.size).toBe(3);
    direct.destroy();
    await close();
  });

  it('all spellings of a Service share one balancer, and keep their Host header', async () => {
    open();
    const spellings = [
      'orders.shop',
      'orders.shop.svc',
      'orders.shop.svc.cluster.local',
      'orders.shop.svc.cluster.local.',
    ];
    for (const spelling of spellings)
      expect(await plain(`http://${spelling}:8080/`)).toMatchObject({ host: `${spelling}:8080` });
    expect(agents.balancers.size).toBe(1);
  });

  it('a host that is not a Service goes to the agent that was there before', async () => {
    const seen: string[] = [];
    const before = new http.Agent();
    const { addRequest } = before as unknown as { addRequest(...given: unknown[]): void };
    Object.assign(before, {
      addRequest(request: unknown, options: { host: string }) {
        seen.push(options.host);
        addRequest.call(before, request, { ...options, host: '127.0.0.1', port: outside.port });
      },
    });
    open({ fallbackAgents: { http: before } });
    expect(await plain('http://legacy.shop:8080/')).toMatchObject({ pod: 'outside' });
    expect(await plain('http://api.example.com/')).toMatchObject({ pod: 'outside' });
    expect(seen).toEqual(['legacy.shop', 'api.example.com']);
    expect(agents.balancers.size).toBe(0);
  });

  it('a request for a proxy, or with its own way to connect, is left alone', async () => {
    open();
    const seen = await send(agents.http, `http://127.0.0.1:${outside.port}`, { path: `${origin}/` });
    expect(JSON.parse(seen.body)).toMatchObject({ pod: 'outside' });
    const lookup = ((_host: string, _options: object, done: (error: null, all: unknown, family?: number) => void) =>
      done(null, [{ address: '127.0.0.1', family: 4 }], 4)) as never;
    const own = await send(agents.http, `http://orders.shop:${outside.port}/`, { lookup });
    expect(JSON.parse(own.body)).toMatchObject({ pod: 'outside' });
    expect(agents.balancers.size).toBe(0);
  });

  it('the first request waits for DNS, and can be aborted meanwhile', async () => {
    open({ lookupTimeoutMs: 60_000 });
    const speak = world.dns.fault({ kind: 'silent' });
    const given = new AbortController();
    const request = http.request(origin, { agent: agents.http, signal: given.signal });
    request.end();
    const failed = once(request, 'error');
    await until('it waits', () => agents.snapshot().pending === 1);
    given.abort();
    const [error] = (await failed) as [Error & { code: string }];
    expect(error.code).toBe('ABORT_ERR');
    speak();
    expect(agents.snapshot().pending).toBe(0);
    expect(await plain(`${origin}/`)).toMatchObject({ host: 'orders.shop:8080' });
  });

  it('a request whose signal was already aborted fails without waiting for DNS', async () => {
    open({ lookupTimeoutMs: 60_000 });
    const speak = world.dns.fault({ kind: 'silent' });
    const request = http.request(origin, { agent: agents.http, signal: AbortSignal.abort() });
    expect(agents.snapshot().pending).toBe(0);
    expect(await once(request, 'error')).toMatchObject([{ code: 'ABORT_ERR' }]);
    speak();
  });

  it('invalid options for an origin fail the request, not the process', async () => {
    open({ options: () => ({ connections: -1 }) });
    expect(await codeOf(send(agents.http, `${origin}/`))).toBe('EVENKEEL_OPTION');
  });

  it('options that Node refuses fail a request that waited for DNS, not the process', async () => {
    open();
    const refused = { minVersion: 'TLSv9' } as object;
    expect(await codeOf(send(agents.https, 'https://other.shop/', refused))).toBe('ERR_TLS_INVALID_PROTOCOL_VERSION');
  });

  it('a host named like a member of Object.prototype is left alone', async () => {
    open({ fallbackAgents: { http: refusing('http:'), https: refusing('https:') } });
    for (const host of ['__proto__', 'constructor', 'toString.shop']) {
      expect(await codeOf(send(agents.http, `http://${host}:8080/`)), host).toBe('LEFT_ALONE');
    }
    expect((await send(agents.http, `${origin}//evil.example/x`)).body).toContain('"url":"//evil.example/x"');
    expect((await send(agents.http, `${origin}/__proto__`)).body).toContain('"url":"/__proto__"');
  });

  it('after close() requests go to the agents that were there before', async () => {
    open({ fallbackAgents: { http: refusing('http:') } });
    await plain(`${origin}/`);
    await agents.close();
    expect(await codeOf(send(agents.http, `${origin}/`))).toBe('LEFT_ALONE');
  });

  it('a rolling update fails no request', async () => {
    const three = await Pods.start(3);
    try {
      exist('stock', three);
      open();
      let failed = 0;
      let done = 0;
      let ends = false;
      const workers = Array.from({ length: 8 }, async () => {
        while (!ends) {
          await plain('http://stock.shop:8080/').then(
            () => done++,
            () => failed++,
          );
        }
      });
      await until('all pods are used', async () => (await three.total('requests')) > 100);
      const next = await Pods.start(3);
      exist('stock', next);
      const before = done;
      await until('the new pods serve', async () => done > before + 200 && (await next.total('requests')) > 100);
      ends = true;
      await Promise.all(workers);
      await next[Symbol.asyncDispose]();
      expect(failed).toBe(0);
    } finally {
      await three[Symbol.asyncDispose]();
    }
  });
});

/** An agent that carries nothing, as if the host could not be reached. */
function refusing(protocol: 'http:' | 'https:'): https.Agent {
  const agent = protocol === 'https:' ? new https.Agent() : new http.Agent();
  return Object.assign(agent, {
    addRequest(request: http.ClientRequest) {
      request.destroy(Object.assign(new Error('left alone'), { code: 'LEFT_ALONE' }));
      (request.onSocket as unknown as (socket: null, error: Error) => void).call(
        request,
        null,
        Object.assign(new Error('left alone'), { code: 'LEFT_ALONE' }),
      );
    },
  }) as unknown as https.Agent;
}

describe('over TLS', () => {
  it('requests with their own certificates share no connection with others', async () => {
    const mine = createCertificate({ hosts: ['secure.shop'] });
    const other = createCertificate({ hosts: ['secure.shop'] });
    const secure = await Pods.start(2, { tls: mine });
    try {
      exist('secure', secure, 8443);
      open();
      const url = 'https://secure.shop:8443/';
      const get = (ca: string): Promise<unknown> =>
        send(agents.https, url, { ca } as never).then(({ status }) => status);
      expect(await get(mine.cert)).toBe(200);
      expect(await codeOf(get(other.cert))).toMatch(/CERT|SELF_SIGNED|EVENKEEL/);
      expect(await codeOf(send(agents.https, url))).toMatch(/CERT|SELF_SIGNED|EVENKEEL/);
      expect(await get(mine.cert)).toBe(200);
      expect(agents.balancers.size).toBeGreaterThan(0);
    } finally {
      await secure[Symbol.asyncDispose]();
    }
  });
});
