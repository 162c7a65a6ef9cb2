import { once } from 'node:events';
import { createServer, get, type IncomingHttpHeaders, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ObserverEvents, staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { type Backend, createBackend } from 'evenkeel/server';
import { createDispatcher, createFetch } from 'evenkeel/undici';
import { request as stockRequest } from 'undici';
import { describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
const ASK = 'endpoint-load-metrics-format';

const closing = calledAfterEach();

interface Served {
  readonly pod: Backend;
  readonly server: Server;
  readonly endpoint: { readonly address: string; readonly port: number };
  /** Headers of the requests that came, in order. */
  readonly headers: IncomingHttpHeaders[];
}

async function serve(answer: (path: string) => Promise<void> | void = () => {}): Promise<Served> {
  const pod = createBackend();
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer(
    pod.http(async (incoming, response) => {
      headers.push(incoming.headers);
      await answer(incoming.url ?? '');
      response.end('hello');
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await pod.close();
  });
  return { pod, server, endpoint: { address: '127.0.0.1', port: (server.address() as AddressInfo).port }, headers };
}

type Ended = ObserverEvents['attemptEnded'];

/** Sends one GET with each of our HTTP clients, in one way or another. */
const clients: Record<string, (served: Served, heard: (event: Ended) => void, options: object) => Promise<string>> = {
  undici: async ({ endpoint }, heard, options) => {
    const dispatcher = createDispatcher(origin, {
      resolver: staticEndpoints([endpoint]),
      observer: { attemptEnded: heard },
      ...options,
    });
    closing.push(() => dispatcher.destroy());
    const { body } = await dispatcher.request({ path: '/', method: 'GET' });
    return body.text();
  },
  fetch: async ({ endpoint }, heard, options) => {
    const fetch = createFetch(origin, {
      resolver: staticEndpoints([endpoint]),
      observer: { attemptEnded: heard },
      ...options,
    });
    closing.push(() => fetch.close());
    return (await fetch('/', { headers: { 'x-a': '1' } })).text();
  },
  'global fetch': async ({ endpoint }, heard, options) => {
    const dispatcher = createDispatcher(origin, {
      resolver: staticEndpoints([endpoint]),
      observer: { attemptEnded: heard },
      ...options,
    });
    closing.push(() => dispatcher.destroy());
    return (await fetch(`${origin}/`, { dispatcher } as never)).text();
  },
  'node:http': async ({ endpoint }, heard, options) => {
    const agent = createAgent(origin, {
      resolver: staticEndpoints([endpoint]),
      observer: { attemptEnded: heard },
      ...options,
    });
    closing.push(() => agent.destroy());
    const [response] = (await once(get(`${origin}/`, { agent }), 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of response) text += chunk;
    return text;
  },
};

describe.each(Object.entries(clients))('%s', (_name, send) => {
  it('requests a load report, and uses it', async () => {
    const served = await serve();
    const heard: Ended[] = [];
    expect(await send(served, (event) => heard.push(event), { askForReports: 'always' })).toBe('hello');
    expect(served.headers[0]).toHaveProperty(ASK, 'TEXT');
    await until('the attempt ended', () => heard.length === 1);
    expect(heard[0]?.outcome).toMatchObject({ kind: 'success', report: { namedMetrics: { evenkeel_in_flight: 1 } } });
  });

  it('requests none with askForReports: false', async () => {
    const served = await serve();
    await send(served, () => {}, { askForReports: false });
    expect(served.headers[0]).not.toHaveProperty(ASK);
  });
});

describe('other hosts', () => {
  it('get no request for a report from undici or node:http', async () => {
    const other = await serve();
    const { port } = other.endpoint;
    const resolver = staticEndpoints([(await serve()).endpoint]);
    const dispatcher = createDispatcher(origin, { resolver, askForReports: 'always' });
    closing.push(() => dispatcher.destroy());
    const agent = createAgent(origin, { resolver, askForReports: 'always' });
    closing.push(() => agent.destroy());
    const { body } = await stockRequest(`http://127.0.0.1:${port}/`, { dispatcher });
    await body.dump();
    const [response] = (await once(get({ host: '127.0.0.1', port, agent }), 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    expect(other.headers).toHaveLength(2);
    for (const headers of other.headers) expect(headers).not.toHaveProperty(ASK);
  });
});

describe('headers in every form that undici accepts', () => {
  it.each([
    ['none', undefined],
    ['an object', { 'x-a': '1' }],
    ['a list', ['x-a', '1']],
    ['pairs', new Map([['x-a', '1']])],
    ['Headers', new Headers({ 'x-a': '1' })],
  ])('%s', async (_name, headers) => {
    const served = await serve();
    const resolver = staticEndpoints([served.endpoint]);
    const dispatcher = createDispatcher(origin, { resolver, askForReports: 'always' });
    closing.push(() => dispatcher.destroy());
    const before = headers === undefined ? undefined : JSON.stringify([...Object.entries(headers)]);
    const { body } = await dispatcher.request({
      path: '/',
      method: 'GET',
      ...(headers && { headers: headers as never }),
    });
    await body.dump();
    expect(served.headers[0]).toHaveProperty(ASK, 'TEXT');
    if (headers !== undefined) {
      expect(served.headers[0]).toHaveProperty('x-a', '1');
      expect(JSON.stringify([...Object.entries(headers)])).toBe(before);
    }
  });

  it.each([
    ['an object', { 'Endpoint-Load-Metrics-Format': 'BIN' }],
    ['a list', ['Endpoint-Load-Metrics-Format', 'BIN']],
  ])('%s that ask for a report in another way stay unchanged', async (_name, headers) => {
    const served = await serve();
    const dispatcher = createDispatcher(origin, {
      resolver: staticEndpoints([served.endpoint]),
      askForReports: 'always',
    });
    closing.push(() => dispatcher.destroy());
    const { body } = await dispatcher.request({ path: '/', method: 'GET', headers });
    await body.dump();
    expect(served.headers[0]).toHaveProperty(ASK, 'BIN');
  });
});

describe('a server kept busy by others', () => {
  it('gets fewer calls from a client that has none in flight there', async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const busy = await serve((path) => (path === '/held' ? held : undefined));
    const idle = await serve();
    // Somebody else's requests, which our client knows nothing of.
    const others = Array.from({ length: 20 }, () => stockRequest(`http://127.0.0.1:${busy.endpoint.port}/held`));
    await until('they run', () => busy.pod.inFlight === 20);
    const dispatcher = createDispatcher(origin, { resolver: staticEndpoints([busy.endpoint, idle.endpoint]) });
    closing.push(() => dispatcher.destroy());
    await until('both pods are connected to', () =>
      dispatcher.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
    );
    for (let call = 0; call < 100; call++) {
      const { body } = await dispatcher.request({ path: '/', method: 'GET' });
      await body.dump();
    }
    release();
    for (const other of others) await (await other).body.dump();
    // It is tried again when its report is old.
    expect(idle.headers.length).toBeGreaterThanOrEqual(80);
    expect(busy.headers.length - 20).toBeGreaterThanOrEqual(1);
  });
});
