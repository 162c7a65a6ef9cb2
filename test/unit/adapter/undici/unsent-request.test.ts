import { AsyncLocalStorage } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAppAgent, createDispatcher } from '../../../../src/adapter/undici/index.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { FakeDnsClient } from '../../../support/fixtures/fake-dns-client.js';

const origin = 'http://orders.shop:8080';
const names = ['create', 'error', 'trailers'] as const;

interface Heard {
  readonly name: (typeof names)[number];
  readonly request: Record<string, unknown> & { addHeader(name: string, value: string): unknown };
  readonly error?: Error;
  readonly user: string | undefined;
}

let heard: Heard[];
const users = new AsyncLocalStorage<string>();
const listeners = names.map((name) => {
  const listener = (message: unknown): void => {
    heard.push({ name, ...(message as Omit<Heard, 'name' | 'user'>), user: users.getStore() });
  };
  return { on: channel(`undici:request:${name}`), listener };
});
const listen = (): void => {
  for (const { on, listener } of listeners) on.subscribe(listener);
};
let clock: FakeClock;
let resolver: FakeResolver;
let ending: undici.Dispatcher[];

beforeEach(() => {
  heard = [];
  ending = [];
  clock = new FakeClock();
  resolver = new FakeResolver();
});
afterEach(async () => {
  for (const { on, listener } of listeners) on.unsubscribe(listener);
  for (const dispatcher of ending) await dispatcher.destroy();
});
const keep = <T extends undici.Dispatcher>(dispatcher: T): T => {
  ending.push(dispatcher);
  return dispatcher;
};
const open = (more: Parameters<typeof createDispatcher>[1] = {}) =>
  keep(createDispatcher(origin, { resolver, clock, ...more }));
const asked = {
  origin,
  path: '/v1',
  query: { a: ['1', '2'] },
  method: 'POST',
  headers: { 'content-type': 'text/plain', 'x-user': ['ann', 'bob'], host: 'orders' },
  body: 'text',
} as const;

/** Exactly one request was told of, created and failed with `error`. */
function toldOnce(error: unknown): void {
  expect(heard.map(({ name }) => name)).toEqual(['create', 'error']);
  expect(heard[1]?.request).toBe(heard[0]?.request);
  expect(heard[1]?.error).toBe(error);
}

describe("a request that never got a pod is published on undici's channels", () => {
  it('as undici publishes its own', async () => {
    listen();
    const dispatcher = open({ askForReports: false });
    const answer = users.run('ann', () => dispatcher.request(asked as never).catch((error) => error));
    expect(heard).toEqual([]);
    await clock.advanceAsync(5_000);
    const error = await answer;
    expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    toldOnce(error);
    expect(heard.map(({ user }) => user)).toEqual(['ann', 'ann']);
    const [ours] = heard.splice(0);
    const stock = keep(new undici.Pool(origin, { connect: (_options, dialled) => dialled(new Error('no'), null) }));
    await stock.request(asked as never).catch(() => {});
    const theirs = heard[0]?.request;
    for (const name of [
      'origin',
      'method',
      'path',
      'headers',
      'host',
      'contentType',
      'contentLength',
      'upgrade',
      'completed',
      'idempotent',
    ]) {
      expect(ours?.request[name], name).toEqual(theirs?.[name]);
    }
    ours?.request.addHeader('traceparent', '00-1');
    expect(ours?.request.headers).toEqual(expect.arrayContaining(['traceparent', '00-1']));
  });

  it.each([
    ['a Service without endpoints', () => resolver.update(), {}],
    ['a full queue', () => {}, { maxWaiting: 0 }],
  ])('%s', async (_what, prepare, more) => {
    listen();
    const dispatcher = open(more as never);
    prepare();
    await clock.advanceAsync(0);
    const answer = dispatcher.request({ origin, path: '/', method: 'GET' }).catch((error) => error);
    await clock.advanceAsync(10_000);
    toldOnce(await answer);
  });

  it.each([{}, { retry: { statuses: [503] } }])('after a deadline, an abort, or destroy: %j', async (more) => {
    listen();
    const late = users.run('ann', () =>
      open({ ...more, deadlineMs: 10 })
        .request({ origin, path: '/', method: 'GET' })
        .catch((error) => error),
    );
    await clock.advanceAsync(10);
    expect(await late).toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    toldOnce(await late);
    expect(heard.map(({ user }) => user)).toEqual(['ann', 'ann']);
    heard = [];
    const given = new AbortController();
    const aborted = open(more)
      .request({ origin, path: '/', method: 'GET', signal: given.signal })
      .catch((error) => error);
    given.abort();
    toldOnce(await aborted);
    heard = [];
    const dispatcher = open(more);
    const cut = dispatcher.request({ origin, path: '/', method: 'GET' }).catch((error) => error);
    const enough = new Error('enough');
    await dispatcher.destroy(enough);
    expect(await cut).toBe(enough);
    toldOnce(enough);
  });

  it('if it was waiting for DNS', async () => {
    listen();
    const dns = new FakeDnsClient();
    dns.answers['A orders.shop.svc.cluster.local.'] = new Promise<never>(() => {});
    const discovery = { dns: { client: () => dns, clusterDomain: 'cluster.local' } };
    const agent = keep(createAppAgent({ clock, discovery }));
    const given = new AbortController();
    const aborted = agent.request({ ...asked, signal: given.signal } as never).catch((error) => error);
    given.abort();
    toldOnce(await aborted);
    expect(heard[0]?.request).toMatchObject({ origin, path: '/v1?a=1&a=2' });
  });
});

it('a request that gets a pod after waiting is published once, by undici', async () => {
  listen();
  const server = createServer((_request, response) => response.end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const dispatcher = keep(createDispatcher(origin, { resolver }));
  const answer = dispatcher.request({ origin, path: '/', method: 'GET' });
  resolver.update({ address: '127.0.0.1', port });
  await (await answer).body.dump();
  expect(heard.map(({ name }) => name)).toEqual(['create', 'trailers']);
  await dispatcher.destroy();
  server.close();
});

it('a request that undici refuses is not published', async () => {
  listen();
  const answer = open().request({ origin, path: '/', method: 'GET', headers: { a: '\n' } });
  await expect(answer).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
  expect(heard).toEqual([]);
});
