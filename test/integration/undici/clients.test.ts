import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { staticEndpoints } from 'evenkeel';
import { createDispatcher, createFetch, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Pods } from '../../support/pods/pods.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { undici8 } from './support/undici8.js';

const origin = 'http://orders.shop:8080';
const allPods = ['pod-0', 'pod-1', 'pod-2'];

let pods: Pods;
let orders: ServiceDispatcher;

beforeAll(async () => {
  pods = await Pods.start(3);
  orders = createDispatcher(origin, { resolver: staticEndpoints(pods.endpoints) });
  await orders.balancer.ready();
});

afterAll(async () => {
  await orders.close();
  await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  await pods[Symbol.asyncDispose]();
});

const inFlight = (): number =>
  orders.balancer.snapshot().endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight, 0);

interface Answer {
  readonly status: number;
  readonly pod: string | null;
  readonly cookies: readonly string[];
  readonly body: string;
}
type Send = (
  path: string,
  init?: { method?: string; body?: string; headers?: Record<string, string> },
) => Promise<Answer>;

const fromResponse = async (response: Response): Promise<Answer> => ({
  status: response.status,
  pod: response.headers.get('x-pod'),
  cookies: response.headers.getSetCookie(),
  body: await response.text(),
});

type Undici = typeof undici;
// undici 8 needs APIs that Node 20 does not have: there it fails to load.

const requestWith =
  (library: Undici): Send =>
  async (path, init = {}) => {
    const options = { ...init, dispatcher: orders } as Parameters<typeof undici.request>[1];
    const { statusCode, headers, body } = await library.request(`${origin}${path}`, options);
    return {
      status: statusCode,
      pod: headers['x-pod'] as string,
      cookies: [headers['set-cookie'] ?? []].flat(),
      body: await body.text(),
    };
  };
const fetchWith =
  (library: Undici): Send =>
  async (path, init) =>
    fromResponse((await library.fetch(`${origin}${path}`, { ...init, dispatcher: orders })) as unknown as Response);

const clients: Record<string, Send | undefined> = {
  'undici.request': requestWith(undici),
  'undici.fetch': fetchWith(undici),
  'global fetch': async (path, init) =>
    fromResponse(await fetch(`${origin}${path}`, { ...init, dispatcher: orders } as unknown as RequestInit)),
  'undici 8 request': undici8 && requestWith(undici8),
  'undici 8 fetch': undici8 && fetchWith(undici8),
};

describe.each(
  Object.entries(clients).map(
    ([name, client]) => [titleOf(name, client !== undefined, 'it needs Node 22'), client] as const,
  ),
)('%s', (_name, client) => {
  const send = client as Send;
  const test = it.skipIf(client === undefined);

  test('reaches every pod', async () => {
    const seen = new Set<string | null>();
    for (let request = 0; request < 60; request++) seen.add((await send('/')).pod);
    expect([...seen].sort()).toEqual(allPods);
  });

  test('keeps the Host header of the Service', async () => {
    expect(JSON.parse((await send('/where')).body)).toMatchObject({ host: 'orders.shop:8080', url: '/where' });
  });

  test('sends a body with POST', async () => {
    const answer = await send('/', { method: 'POST', body: 'a body' });
    expect(JSON.parse(answer.body)).toMatchObject({ method: 'POST', length: 6 });
  });

  test('accepts a Content-Length from the caller', async () => {
    const answer = await send('/', { method: 'POST', body: 'a body', headers: { 'content-length': '6' } });
    expect(JSON.parse(answer.body)).toMatchObject({ length: 6, headers: { 'content-length': '6' } });
  });

  test('keeps repeated headers apart', async () => {
    expect((await send('/cookies')).cookies).toEqual(['a=1', 'b=2']);
  });

  test('skips informational responses', async () => {
    expect(await send('/hints')).toMatchObject({ status: 200, body: 'after the hints' });
  });

  test('returns 404 and 503 as responses, not as errors', async () => {
    expect(await send('/status/404')).toMatchObject({ status: 404, body: 'status 404' });
    expect(await send('/status/503')).toMatchObject({ status: 503, body: 'status 503' });
  });

  test('reads a large body', async () => {
    expect((await send('/bytes/3000000')).body).toHaveLength(3_000_000);
  });
});

describe('createFetch', () => {
  it('resolves paths against the Service and returns global Responses', async () => {
    const fetchOrders = createFetch(origin, { resolver: staticEndpoints(pods.endpoints) });
    const response = await fetchOrders('/v1/orders/42?full=1');
    expect(response).toBeInstanceOf(Response);
    expect(await response.json()).toMatchObject({ host: 'orders.shop:8080', url: '/v1/orders/42?full=1' });
    const request = new Request(`${origin}/with-request`, { method: 'PUT', body: 'x' });
    expect(await (await fetchOrders(request)).json()).toMatchObject({ method: 'PUT', url: '/with-request' });
    expect(await (await fetchOrders(new URL('/url', origin))).json()).toMatchObject({ url: '/url' });
    expect(fetchOrders.balancer.snapshot().endpoints).toHaveLength(3);
    await fetchOrders.close();
    await expect(fetchOrders('/')).rejects.toMatchObject({ cause: { code: 'EVENKEEL_CLOSED' } });
  });

  it('reads members of `init` that are inherited, as `fetch` does', async () => {
    await using fetchOrders = createFetch(origin, { resolver: staticEndpoints(pods.endpoints) });
    const request = new Request('http://elsewhere.example/', { method: 'PUT', body: 'four', headers: { 'x-id': '7' } });
    const expected = { method: 'PUT', url: '/v1', length: 4, headers: { 'x-id': '7' } };
    expect(await (await fetchOrders('/v1', request)).json()).toMatchObject(expected);
    const defaults = { method: 'PUT', headers: { 'x-id': '7' } };
    const init = Object.assign(Object.create(defaults) as object, { body: 'four' });
    expect(await (await fetchOrders('/v1', init)).json()).toMatchObject(expected);
  });
});

describe('the methods of a dispatcher', () => {
  it('request: streams both ways, with trailers', async () => {
    const chunks = Array.from({ length: 200 }, (_, index) => `chunk ${index} ${'.'.repeat(5_000)}\n`);
    const { body, trailers } = await orders.request({
      path: '/echo',
      method: 'POST',
      body: Readable.from(chunks),
    });
    const received = await body.text();
    expect(received).toBe(chunks.join(''));
    expect(trailers).toEqual({ 'x-length': String(received.length) });
  });

  it('stream: writes into the stream its factory returns', async () => {
    let length = 0;
    const sink = new Writable({
      write(chunk: Buffer, _encoding, written) {
        length += chunk.length;
        written();
      },
    });
    await orders.stream({ path: '/bytes/1000000', method: 'GET' }, () => sink);
    expect(length).toBe(1_000_000);
  });

  it('pipeline: sends what is written and returns what arrives', async () => {
    const duplex = orders.pipeline({ path: '/echo', method: 'POST' }, ({ body }) => body);
    duplex.end('through the pipe');
    expect(await text(duplex)).toBe('through the pipe');
  });

  it('request: reports informational responses', async () => {
    const informed: number[] = [];
    const onInfo = ({ statusCode }: { statusCode: number }): void => {
      informed.push(statusCode);
    };
    const { body } = await orders.request({ path: '/hints', method: 'GET', onInfo });
    await body.dump();
    expect(informed).toEqual([103]);
  });

  it('upgrade: the connection counts as a call until it is closed', async () => {
    const { socket, headers } = await orders.upgrade({ path: '/', protocol: 'echo' });
    expect(headers.upgrade).toBe('echo');
    expect(inFlight()).toBe(1);
    socket.write('across');
    expect(String((await once(socket, 'data'))[0])).toBe('across');
    socket.end();
    await until('the upgraded connection counts no more', () => inFlight() === 0);
  });

  it('connect: opens a tunnel', async () => {
    const { statusCode, socket } = await orders.connect({ origin, path: 'orders.shop:8080' });
    expect(statusCode).toBe(200);
    socket.end('through the tunnel');
    expect(await text(socket)).toBe('through the tunnel');
  });

  it('WebSocket: a connection is a call on its pod', async () => {
    const socket = new undici.WebSocket('ws://orders.shop:8080/', { dispatcher: orders });
    const greeting = await new Promise((resolve) => {
      socket.addEventListener('message', ({ data }) => resolve(data), { once: true });
    });
    expect(allPods).toContain(greeting);
    expect(inFlight()).toBe(1);
    socket.close();
    await until('it counts no more', () => inFlight() === 0);
  });

  it('compose: interceptors work over it', async () => {
    const composed = orders.compose(undici.interceptors.responseError());
    await expect(composed.request({ path: '/status/404', method: 'GET', origin })).rejects.toMatchObject({
      statusCode: 404,
    });
  });

  it('a call counts until its body ends, even a large one that nobody reads', async () => {
    await until('nothing runs', () => inFlight() === 0);
    const { body } = await orders.request({ path: '/bytes/5000000', method: 'GET' });
    expect(inFlight()).toBe(1);
    expect((await buffer(body)).length).toBe(5_000_000);
    expect(inFlight()).toBe(0);
    const cut = await orders.request({ path: '/bytes/5000000', method: 'GET' });
    expect(inFlight()).toBe(1);
    cut.body.on('error', () => {}).destroy();
    await until('the call that was cut counts no more', () => inFlight() === 0);
  });
});
