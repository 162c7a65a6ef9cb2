import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import axios from 'axios';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import got from 'got';
import fetch from 'node-fetch';
import superagent from 'superagent';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { connected } from '../../support/fixtures/connected.js';
import { type Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { running } from './support/request.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
/** Another server, where redirects lead. */
let otherPod: Pod;
let orders: HttpServiceAgent;

beforeAll(async () => {
  pods = await Pods.start(4);
  otherPod = pods.all.pop() as Pod;
  orders = createAgent(origin, { resolver: staticEndpoints(pods.endpoints), picker: roundRobin() });
  await connected(orders.balancer, 3);
});
afterAll(async () => {
  await orders.close();
  await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  await otherPod[Symbol.asyncDispose]();
  await pods[Symbol.asyncDispose]();
});

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly pod: unknown;
  readonly cookies: unknown;
}
interface Init {
  readonly method?: 'GET' | 'POST';
  readonly body?: string;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}
type Send = (path: string, init?: Init) => Promise<Answer>;

const clients: Record<string, Send> = {
  'http.request': (path, { body, ...init } = {}) =>
    new Promise((resolve, reject) => {
      const outgoing = request(`${origin}${path}`, { agent: orders, ...init }, (response) => {
        const { statusCode = 0, headers } = response;
        const answer = { status: statusCode, pod: headers['x-pod'], cookies: headers['set-cookie'] };
        text(response).then((all) => resolve({ ...answer, body: all }), reject);
      });
      outgoing.on('error', reject).end(body);
    }),
  axios: async (path, { method = 'GET', body, ...init } = {}) => {
    const { status, headers, data } = await axios.request({
      baseURL: origin,
      url: path,
      method,
      httpAgent: orders,
      proxy: false,
      responseType: 'text',
      transformResponse: (raw: string) => raw,
      validateStatus: () => true,
      ...(body !== undefined && { data: body }),
      ...(init as object),
    });
    return { status, body: data, pod: headers['x-pod'], cookies: headers['set-cookie'] };
  },
  got: async (path, init = {}) => {
    const { statusCode, headers, body } = await got(`${origin}${path}`, {
      agent: { http: orders },
      throwHttpErrors: false,
      retry: { limit: 0 },
      ...init,
    });
    return { status: statusCode, body, pod: headers['x-pod'], cookies: headers['set-cookie'] };
  },
  'node-fetch': async (path, init = {}) => {
    const response = await fetch(`${origin}${path}`, { agent: orders, ...init } as Parameters<typeof fetch>[1]);
    const { status, headers } = response;
    return { status, body: await response.text(), pod: headers.get('x-pod'), cookies: headers.raw()['set-cookie'] };
  },
  superagent: async (path, { method = 'GET', body, headers = {}, signal } = {}) => {
    const call = superagent(method, `${origin}${path}`)
      .agent(orders)
      .set(headers)
      .ok(() => true)
      .buffer(true)
      .parse(superagent.parse.text as never);
    signal?.addEventListener('abort', () => {
      call.abort();
    });
    if (body !== undefined) call.type('text/plain');
    const response = await call.send(body);
    return {
      status: response.status,
      body: response.text,
      pod: response.headers['x-pod'],
      cookies: response.headers['set-cookie'],
    };
  },
};

describe.each(Object.entries(clients))('%s', (_name, send) => {
  it('reaches every pod in turn, over one connection each', async () => {
    const connections = await pods.total('connections');
    const perPod = new Map<unknown, number>();
    for (let turn = 0; turn < 300; turn++) {
      const { pod } = await send('/bytes/10');
      perPod.set(pod, (perPod.get(pod) ?? 0) + 1);
    }
    expect(Object.fromEntries(perPod)).toEqual({ 'pod-0': 100, 'pod-1': 100, 'pod-2': 100 });
    expect(await pods.total('connections')).toBe(connections);
  });

  it('keeps the Host header of the Service', async () => {
    expect(JSON.parse((await send('/where')).body)).toMatchObject({ host: 'orders.shop:8080', url: '/where' });
  });

  it('sends a body with POST', async () => {
    const { body } = await send('/', { method: 'POST', body: 'a body' });
    expect(JSON.parse(body)).toMatchObject({ method: 'POST', length: 6 });
  });

  it('keeps repeated headers apart', async () => {
    expect((await send('/cookies')).cookies).toEqual(['a=1', 'b=2']);
  });

  it('skips informational responses', async () => {
    expect(await send('/hints')).toMatchObject({ status: 200, body: 'after the hints' });
  });

  it('returns 404 and 503 as responses', async () => {
    expect(await send('/status/404')).toMatchObject({ status: 404, body: 'status 404' });
    expect(await send('/status/503')).toMatchObject({ status: 503, body: 'status 503' });
  });

  it('reads a large body', async () => {
    expect((await send('/bytes/3000000')).body).toHaveLength(3_000_000);
  });

  it('follows a redirect to another host, past the pods', async () => {
    const before = await pods.total('requests');
    const there = `http://127.0.0.1:${otherPod.port}/there`;
    const answer = await send(`/redirect?to=${there}`, { headers: { 'x-id': 'redirected' } });
    // http.request leaves that to its caller.
    if (answer.status === 302) return;
    expect(JSON.parse(answer.body)).toMatchObject({ pod: 'pod-3', host: `127.0.0.1:${otherPod.port}`, url: '/there' });
    expect(await pods.total('requests')).toBe(before + 1);
  });

  it('aborts a request, and nothing keeps running', async () => {
    const caller = new AbortController();
    const before = await pods.total('requests');
    const hanging = send('/hang', { signal: caller.signal });
    const failed = expect(hanging).rejects.toThrow();
    await until('a pod has the request', async () => (await pods.total('requests')) > before);
    expect(running(orders)).toBe(1);
    caller.abort();
    await failed;
    await until('nothing runs', () => running(orders) === 0);
  });

  it('sends many requests at once, and every lease ends', async () => {
    const answers = await Promise.all(Array.from({ length: 90 }, () => send('/bytes/1000')));
    expect(answers.every(({ status, body }) => status === 200 && body.length === 1_000)).toBe(true);
    await until('nothing runs', () => running(orders) === 0);
  });
});

describe('ws', () => {
  const open = (): Promise<{ socket: WebSocket; pod: string }> =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket('ws://orders.shop:8080/', { agent: orders });
      socket.once('error', reject);
      socket.once('message', (name) => resolve({ socket, pod: String(name) }));
    });

  it('is balanced per connection, each counting as a call on its pod until it closes', async () => {
    const failures = (): number[] => orders.balancer.snapshot().endpoints.map(({ failed }) => failed);
    const failedBefore = failures();
    const opened = await Promise.all(Array.from({ length: 6 }, open));
    expect(opened.map(({ pod }) => pod).sort()).toEqual(['pod-0', 'pod-0', 'pod-1', 'pod-1', 'pod-2', 'pod-2']);
    expect(running(orders)).toBe(6);
    for (const { socket } of opened.slice(0, 4)) socket.send('bye');
    await until('two are left', () => running(orders) === 2);
    for (const { socket } of opened.slice(4)) socket.terminate();
    await until('none is left', () => running(orders) === 0);
    expect(failures()).toEqual(failedBefore);
  });
});
