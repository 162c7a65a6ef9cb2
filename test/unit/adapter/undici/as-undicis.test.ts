import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAppAgent, createDispatcher } from '../../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { until } from '../../../support/until.js';

const origin = 'http://orders.shop:8080';

let server: Server;
let port: number;
/** Answers that wait. */
let held: (() => void)[];
let opened: undici.Dispatcher[];

beforeEach(async () => {
  held = [];
  opened = [];
  server = createServer(async (request, response) => {
    if (request.url === '/hold') {
      held.push(() => response.end());
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    response.setHeader('content-type', request.headers['content-type'] ?? 'text/plain').end(Buffer.concat(parts));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
});
afterEach(async () => {
  // A MockAgent cannot be destroyed.
  for (const dispatcher of opened)
    await (dispatcher instanceof undici.MockAgent ? dispatcher.close() : dispatcher.destroy());
  server.closeAllConnections();
  server.close();
});

const keep = <T extends undici.Dispatcher>(dispatcher: T): T => {
  opened.push(dispatcher);
  return dispatcher;
};
const resolver = () => staticEndpoints([{ address: '127.0.0.1', port }]);
const agentOf = (more: Parameters<typeof createAppAgent>[0] = {}) =>
  keep(createAppAgent({ services: ['orders.shop'], options: () => ({ resolver: resolver() }), ...more }));
const ask = async (dispatcher: undici.Dispatcher, path: string): Promise<void> => {
  const { body } = await dispatcher.request({ origin, path, method: 'GET' });
  await body.dump();
};

describe.each([
  ['a dispatcher', () => keep(createDispatcher(origin, { resolver: resolver() }))],
  ['a service agent', () => agentOf()],
])('%s reports', (_name, make) => {
  it('that it is closed, and destroyed once all running requests have ended', async () => {
    const dispatcher = make();
    const running = ask(dispatcher, '/hold');
    await until('it runs', () => held.length === 1);
    expect([dispatcher.closed, dispatcher.destroyed]).toEqual([false, false]);
    const closed = dispatcher.close();
    expect([dispatcher.closed, dispatcher.destroyed]).toEqual([true, false]);
    held[0]?.();
    await Promise.all([running, closed]);
    expect([dispatcher.closed, dispatcher.destroyed]).toEqual([true, true]);
  });

  it('that it is destroyed', async () => {
    const dispatcher = make();
    const composed = dispatcher.compose(undici.interceptors.dump()) as typeof dispatcher;
    const ended = dispatcher.destroy();
    expect([composed.closed, composed.destroyed]).toEqual([false, true]);
    await ended;
  });
});

it.each([undefined, null, ''])('a request whose origin is %j is for the Service, as with a Pool', async (none) => {
  const dispatcher = keep(createDispatcher(origin, { resolver: resolver() }));
  for (const path of ['/', `${origin}/absolute`]) {
    const options = { origin: none as never, path, method: 'PUT', body: 'x' } as const;
    expect(await (await dispatcher.request(options)).body.text()).toBe('x');
  }
});

describe('stats', () => {
  it('are those of all pods, and of the requests that wait for one', async () => {
    const fake = new FakeResolver();
    const dispatcher = keep(createDispatcher(origin, { resolver: fake, connections: 1 }));
    const waiting = ask(dispatcher, '/hold');
    expect(dispatcher.stats).toEqual({ connected: 0, free: 0, pending: 1, queued: 1, running: 0, size: 1 });
    fake.update({ address: '127.0.0.1', port });
    await until('it runs', () => held.length === 1);
    expect(dispatcher.stats).toMatchObject({ connected: 1, pending: 0, running: 1, size: 1 });
    held[0]?.();
    await waiting;
    await dispatcher.close();
    expect(dispatcher.stats.connected).toBe(0);
  });

  it('of an agent are those of each origin', async () => {
    const agent = agentOf();
    const running = ask(agent, '/hold');
    const outside = `http://127.0.0.1:${port}`;
    const other = agent.request({ origin: outside, path: '/hold', method: 'GET' });
    await until('both run', () => held.length === 2);
    expect(agent.stats[origin]).toMatchObject({ connected: 1, running: 1, size: 1 });
    const ofAgent = 'stats' in undici.Agent.prototype;
    expect(outside in agent.stats).toBe(ofAgent);
    for (const answer of held) answer();
    await Promise.all([running, other.then(({ body }) => body.dump())]);
  });
});

describe.each([
  [
    'a dispatcher',
    (fallbackDispatcher: undici.Dispatcher) =>
      keep(createDispatcher(origin, { resolver: resolver(), fallbackDispatcher })),
  ],
  ['a service agent', (fallbackDispatcher: undici.Dispatcher) => agentOf({ fallbackDispatcher })],
])('a MockAgent behind %s', (_name, make) => {
  const there = 'http://pay.example.com';

  it('matches the body that `fetch` was given', async () => {
    const mock = keep(new undici.MockAgent());
    mock.disableNetConnect();
    mock.get(there).intercept({ path: '/', method: 'POST', body: 'amount=7' }).reply(201, 'paid');
    const dispatcher = make(mock);
    const response = await undici.fetch(`${there}/`, { method: 'POST', body: 'amount=7', dispatcher });
    expect([response.status, await response.text()]).toEqual([201, 'paid']);
  });

  it('changes no body that goes to a pod', async () => {
    const dispatcher = make(keep(new undici.MockAgent()));
    const form = new undici.FormData();
    form.set('amount', '7');
    const stream = () =>
      new ReadableStream({
        start: (controller) => {
          controller.enqueue(Buffer.from('text'));
          controller.close();
        },
      });
    const ask = (body: unknown) =>
      undici.fetch(`${origin}/`, { method: 'POST', body, dispatcher, duplex: 'half' } as never);
    for (const body of ['text', Buffer.from('text'), new Blob(['text']), stream()]) {
      expect(await (await ask(body)).text()).toBe('text');
    }
    expect(await (await ask(new URLSearchParams({ a: 'b' }))).text()).toBe('a=b');
    expect((await (await ask(form)).formData()).get('amount')).toBe('7');
  });
});

it('the limits of a WebSocket must be whole numbers', () => {
  for (const webSocket of [{ maxPayloadSize: -1 }, { maxFragments: 1.5 }, { maxPayload: 1 }]) {
    for (const make of [
      () => createDispatcher(origin, { webSocket } as never),
      () => createAppAgent({ webSocket } as never),
      () => createAppAgent({ options: { webSocket } } as never),
    ]) {
      expect(make).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    }
  }
});

it('a dispatcher works with undici’s EventSource, as `fallbackDispatcher` says', () => {
  const fallbackDispatcher = keep(new undici.Agent({ eventSource: { maxEventSize: 5 } } as never));
  const said = (fallbackDispatcher as { eventSourceOptions?: unknown }).eventSourceOptions;
  const dispatcher = keep(createDispatcher(origin, { resolver: resolver(), fallbackDispatcher }));
  expect((dispatcher as { eventSourceOptions?: unknown }).eventSourceOptions).toEqual(said);
  expect((agentOf({ fallbackDispatcher }) as { eventSourceOptions?: unknown }).eventSourceOptions).toEqual(said);
});
