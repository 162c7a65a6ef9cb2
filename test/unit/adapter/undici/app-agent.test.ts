import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { Readable } from 'node:stream';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type AppAgent,
  type AppAgentOptions,
  appInterceptor,
  createAppAgent,
} from '../../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../../src/resolver/static.js';
import type { TargetOptions } from '../../../../src/resolver/target.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeDnsClient } from '../../../support/fixtures/fake-dns-client.js';
import { until } from '../../../support/until.js';

const silent = new Promise<never>(() => {});
const exists = ['10.0.0.1'];
const nameOf = (service: string): string => `A ${service}.shop.svc.cluster.local.`;
/** What is asked about it: it may also be a pod of the own namespace. */
const asked = (service: string): string[] => [nameOf(service), `A ${service}.shop.web.svc.cluster.local.`];

/** Stands for everything outside: answers with what it was asked for. */
class Outside extends undici.Dispatcher {
  readonly origins: string[] = [];

  override dispatch(options: undici.Dispatcher.DispatchOptions, handler: undici.Dispatcher.DispatchHandler): boolean {
    this.origins.push(String(options.origin));
    const controller = { abort() {}, pause() {}, resume() {}, rawHeaders: null, rawTrailers: null } as never;
    handler.onRequestStart?.(controller, {});
    handler.onResponseStart?.(controller, 200, { 'x-pod': 'outside' }, 'OK');
    handler.onResponseEnd?.(controller, {});
    return true;
  }
  override async close(): Promise<void> {}
  override async destroy(): Promise<void> {}
}

let clock: FakeClock;
let dns: FakeDnsClient;
let outside: Outside;
let pod: Server;
/** Host headers the pod got. */
let hosts: string[];
let agent: AppAgent;

beforeEach(async () => {
  clock = new FakeClock(0);
  dns = new FakeDnsClient();
  dns.answers[nameOf('orders')] = exists;
  dns.answers[nameOf('stock')] = exists;
  outside = new Outside();
  hosts = [];
  pod = createServer((request, response) => {
    hosts.push(request.headers.host ?? '');
    if (request.url === '/hang') return;
    if (request.url === '/slow') {
      setTimeout(() => response.setHeader('x-pod', 'pod').end(), 20);
      return;
    }
    response.setHeader('x-pod', 'pod').end('from the pod');
  });
  pod.listen(0, '127.0.0.1');
  await once(pod, 'listening');
});
afterEach(async () => {
  await agent?.destroy();
  pod.closeAllConnections();
  await new Promise((resolve) => pod.close(resolve));
});

const toThePod = () => {
  const { port } = pod.address() as { port: number };
  return { resolver: staticEndpoints([{ address: '127.0.0.1', port }]) };
};
const discovery = (): TargetOptions => ({
  dns: { clusterDomain: 'cluster.local', namespace: 'web', client: () => dns },
});
function open(options: AppAgentOptions = {}): AppAgent {
  agent = createAppAgent({
    clock,
    fallbackDispatcher: outside,
    discovery: discovery(),
    options: toThePod,
    ...options,
  });
  return agent;
}

const get = async (url: string, options: Record<string, unknown> = {}): Promise<string> => {
  const { headers, body } = await undici.request(url, { dispatcher: agent, ...options } as never);
  await body.dump();
  return String(headers['x-pod']);
};
const balanced = (): string[] => [...agent.balancers.keys()];

describe('the destination of a request', () => {
  it('is the pods of its Service, or the host outside', async () => {
    open();
    expect(await get('http://orders.shop:8080/')).toBe('pod');
    expect(await get('http://github.com/')).toBe('outside');
    expect(await get('http://10.0.0.1/')).toBe('outside');
    expect(balanced()).toEqual(['http://orders.shop:8080']);
    expect(outside.origins).toEqual(['http://github.com', 'http://10.0.0.1']);
  });

  it('is the same for all spellings of a Service, and each keeps its Host header', async () => {
    open();
    const names = ['orders.shop', 'orders.shop.svc', 'orders.shop.svc.cluster.local', 'orders.shop.svc.cluster.local.'];
    for (const name of [...names, ...names]) expect(await get(`http://${name}:8080/`)).toBe('pod');
    expect(balanced()).toEqual(['http://orders.shop:8080']);
    expect(hosts).toEqual([...names, ...names].map((name) => `${name}:8080`));
    expect(dns.asked).toEqual(asked('orders'));
  });

  it.each([
    ['an object', { host: 'mine' }],
    ['a list', ['x-a', '1', 'Host', 'mine']],
    ['pairs', new Map([['host', 'mine']])],
  ])("does not depend on the caller's Host header, which is kept, in %s", async (_form, headers) => {
    open();
    await get('http://orders.shop/');
    await get('http://orders.shop.svc/', { headers });
    await get('http://orders.shop.svc/', { headers: Array.isArray(headers) ? ['x-a', '1'] : new Map([['x-a', '1']]) });
    expect(hosts).toEqual(['orders.shop', 'mine', 'orders.shop.svc']);
  });

  it('differs for each scheme and port; over TLS also for each spelling', async () => {
    open({ options: () => ({ ...toThePod(), waitTimeoutMs: 0 }) });
    await get('http://orders.shop/').catch(() => {});
    await get('http://orders.shop:8080/').catch(() => {});
    await get('https://orders.shop/').catch(() => {});
    await get('https://orders.shop.svc/').catch(() => {});
    await get('https://orders.shop.svc/').catch(() => {});
    expect(balanced()).toEqual([
      'http://orders.shop',
      'http://orders.shop:8080',
      'https://orders.shop',
      'https://orders.shop.svc',
    ]);
  });

  it('is checked against an absolute URL in the path, which names it where there is no origin', async () => {
    open();
    await get('http://orders.shop/');
    for (const [origin, path] of [
      ['http://orders.shop', 'http://example.com/x'],
      ['http://example.com', 'http://orders.shop/x'],
      ['http://orders.shop', 'http://orders.shop:8080/x'],
    ] as const) {
      await expect(agent.request({ origin, path, method: 'GET' })).rejects.toMatchObject({
        code: 'UND_ERR_INVALID_ARG',
      });
    }
    expect(outside.origins).toEqual([]);
    expect(hosts).toHaveLength(1);
    for (const origin of ['http://orders.shop', undefined]) {
      const { headers, body } = await agent.request({ origin, path: 'http://orders.shop/x', method: 'GET' } as never);
      expect(headers['x-pod']).toBe('pod');
      await body.dump();
    }
  });

  it('without an origin, or with an invalid one, is left to the dispatcher for hosts outside', async () => {
    open({ fallbackDispatcher: new undici.Agent() });
    for (const origin of [undefined, '', 'orders.shop', 'ftp://orders.shop', 'http://[', 3]) {
      await expect(agent.request({ origin, path: '/', method: 'GET' } as never)).rejects.toThrow();
    }
    expect(balanced()).toEqual([]);
  });

  it('needs no DNS with a list of Services or a function', async () => {
    open({ services: ['orders.shop'] });
    expect(await get('http://orders.shop.svc.cluster.local/')).toBe('pod');
    expect(await get('http://stock.shop/')).toBe('outside');
    await agent.destroy();
    open({ services: ({ hostname }) => (hostname === 'orders.shop' ? false : undefined) });
    expect(await get('http://orders.shop/')).toBe('outside');
    expect(await get('http://stock.shop/')).toBe('pod');
    expect(dns.asked).toEqual(asked('stock'));
  });
});

describe('the options for a Service', () => {
  it('are requested once per origin', async () => {
    const asked: string[] = [];
    open({
      options: (origin) => {
        asked.push(origin.href);
        return toThePod();
      },
    });
    for (let request = 0; request < 3; request++) await get('http://orders.shop:8080/');
    await get('http://orders.shop.svc:8080/');
    await get('http://stock.shop/');
    expect(asked).toEqual(['http://orders.shop:8080/', 'http://stock.shop/']);
  });

  it.each([
    [
      'what the function throws',
      () => {
        throw new Error('no options today');
      },
      'no options today',
    ],
    [
      'an unknown option',
      () => ({ ...toThePod(), fallbackDispatcher: outside }),
      'options() has no option "fallbackDispatcher"',
    ],
    ['one that does not fit', () => ({ connections: 0 }), 'connections'],
    ['a promise', async () => toThePod(), 'options() must be options'],
  ])('%s fails the request, and the next one requests the options again', async (_what, wrong, message) => {
    let right = false;
    open({ options: () => (right ? toThePod() : (wrong as () => object)()) });
    await expect(get('http://orders.shop/')).rejects.toThrow(message);
    right = true;
    expect(await get('http://orders.shop/')).toBe('pod');
  });

  it('an error thrown by the function for Services fails the request', async () => {
    open({
      services: () => {
        throw new Error('no idea');
      },
    });
    await expect(get('http://orders.shop/')).rejects.toThrow('no idea');
    await expect(fetch('http://orders.shop/', { dispatcher: agent } as unknown as RequestInit)).rejects.toMatchObject({
      cause: { message: 'no idea' },
    });
  });

  it.each([
    [{ options: { resolver: 'orders.shop:80' } }, 'options.resolver'],
    [{ options: { fallbackDispatcher: {} } }, 'options has no option "fallbackDispatcher"'],
    [{ options: { connections: 0 } }, 'connections'],
    [{ options: { waitTimeoutMs: -1 } }, 'waitTimeoutMs'],
    [{ options: { deadlineMs: 0 } }, 'deadlineMs'],
    [{ options: { tls: 'ca' } }, 'tls'],
    [{ options: { key: 'x' } }, 'options.key'],
    [{ options: { clusterDomain: 5 } }, 'clusterDomain'],
    [{ options: 3 }, 'options'],
    [{ services: 'orders' }, 'services'],
    [{ fallbackDispatcher: {} }, 'fallbackDispatcher'],
    [{ discovery: { dns: { servers: [] } } }, 'servers'],
    [{ discovery: { allowAddresses: ['all'] } }, 'allowAddresses'],
    [{ idleTimeoutMs: 0 }, 'idleTimeoutMs'],
    [{ maxServices: 0 }, 'maxServices'],
    [{ lookupTimeoutMs: 0 }, 'lookupTimeoutMs'],
    [{ target: 'x' }, '"target"'],
    [{ clock: {} }, 'clock'],
  ])('refuse %j at once', (options, part) => {
    const error = expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(part) });
    expect(() => createAppAgent(options as never)).toThrow(error);
    if (!('fallbackDispatcher' in options)) expect(() => appInterceptor(options as never)).toThrow(error);
  });
});

describe('while a DNS query runs', () => {
  beforeEach(() => {
    dns.answers[nameOf('orders')] = silent;
  });

  it('requests wait, and go outside when there is no answer', async () => {
    open();
    const drains: string[] = [];
    agent.on('drain', (origin) => drains.push(String(origin)));
    const answers = [get('http://orders.shop/'), get('http://orders.shop/')];
    await until('both wait', () => agent.snapshot().pending === 2 && dns.asked.length === 1);
    await clock.advanceAsync(2_000);
    expect(await Promise.all(answers)).toEqual(['outside', 'outside']);
    expect(agent.snapshot().pending).toBe(0);
    expect(drains).toEqual(['http://orders.shop/']);
    expect(await get('http://orders.shop/')).toBe('outside');
    expect(dns.asked).toHaveLength(1);
  });

  it('requests go on although a listener of drain throws', async () => {
    open();
    agent.on('drain', () => {
      throw new Error('of the listener');
    });
    const thrown = new Promise((resolve) => agent.once('error' as 'drain', resolve));
    const answer = get('http://orders.shop/');
    await until('it waits', () => agent.snapshot().pending === 1 && dns.asked.length === 1);
    await clock.advanceAsync(2_000);
    expect(await answer).toBe('outside');
    expect(await thrown).toMatchObject({ message: 'of the listener' });
  });

  it.each([
    ['undici.request', (signal: AbortSignal) => get('http://orders.shop/', { signal })],
    ['undici.fetch', (signal: AbortSignal) => undici.fetch('http://orders.shop/', { dispatcher: agent, signal })],
    [
      'global fetch',
      (signal: AbortSignal) => fetch('http://orders.shop/', { dispatcher: agent, signal } as unknown as RequestInit),
    ],
  ])('an abort works at once (%s)', async (_client, send) => {
    open();
    const controller = new AbortController();
    const answer = send(controller.signal);
    answer.catch(() => {});
    await until('it waits', () => agent.snapshot().pending === 1);
    controller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    expect(agent.snapshot().pending).toBe(0);
    await clock.advanceAsync(2_000);
    expect(outside.origins).toEqual([]);
  });

  it('a body that fails ends its request', async () => {
    open();
    const body = new Readable({ read() {} });
    const answer = get('http://orders.shop/', { method: 'POST', body });
    answer.catch(() => {});
    await until('it waits', () => agent.snapshot().pending === 1);
    body.destroy(new Error('the body broke'));
    await expect(answer).rejects.toThrow('the body broke');
    expect(agent.snapshot().pending).toBe(0);
    expect(body.listenerCount('error')).toBeLessThan(2);
  });

  it('at most 20,000 requests wait; further ones go outside at once', async () => {
    open();
    const started = vi.fn();
    const handler = { onRequestStart: started, onResponseError: () => {} };
    for (let request = 0; request < 20_100; request++) {
      agent.dispatch({ origin: 'http://orders.shop', path: '/', method: 'GET' }, handler);
    }
    expect(agent.snapshot().pending).toBe(20_000);
    expect(outside.origins).toHaveLength(100);
    // Each hears of its start at once, or could not abort.
    expect(started).toHaveBeenCalledTimes(20_100);
  });

  it('10,000 hosts at once: few requests wait, and all are answered', async () => {
    open();
    dns.resolve4 = () => silent;
    let answered = 0;
    const handler = { onRequestStart() {}, onResponseEnd: () => void answered++ };
    await get('http://10.0.0.1/');
    for (let host = 0; host < 10_000; host++) {
      agent.dispatch({ origin: `http://host-${host}.example`, path: '/', method: 'GET' }, handler);
      // Not all before the names of the cluster are read.
      if (host === 0) await until('it waits for DNS', () => clock.referencedTimers === 1);
    }
    expect(agent.snapshot()).toMatchObject({ pending: 100, services: [] });
    expect(answered).toBe(9_900);
    await clock.advanceAsync(2_000);
    expect(answered).toBe(10_000);
    expect(agent.snapshot().pending).toBe(0);
    expect(clock.timers).toBe(0);
  });

  it('a handler that throws at the start gets its own error, once', async () => {
    open();
    const errors: string[] = [];
    const handler = {
      onRequestStart() {
        throw new Error('not me');
      },
      onResponseError(_controller: unknown, error: Error) {
        errors.push(error.message);
      },
    };
    expect(agent.dispatch({ origin: 'http://orders.shop', path: '/', method: 'GET' }, handler)).toBe(false);
    expect(errors).toEqual(['not me']);
    await until('it is asked', () => dns.asked.length === 1);
    await clock.advanceAsync(2_000);
    expect(errors).toEqual(['not me']);
    expect(outside.origins).toEqual([]);
  });

  it('destroy fails requests that wait, and cancels the query', async () => {
    open();
    const answer = get('http://orders.shop/');
    answer.catch(() => {});
    await until('it is asked', () => dns.asked.length === 1);
    await agent.destroy();
    await expect(answer).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(dns.cancelled).toBe(1);
    expect(outside.origins).toEqual([]);
  });

  it('destroy fails waiting requests with its error; later requests fail because it is closed', async () => {
    open();
    const answer = get('http://orders.shop/');
    answer.catch(() => {});
    await until('it is asked', () => dns.asked.length === 1);
    const reason = new Error('the process ends');
    await agent.destroy(reason);
    await expect(answer).rejects.toBe(reason);
    await expect(get('http://orders.shop/')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(outside.origins).toEqual([]);
  });

  it('close accepts no new request, and waits until earlier ones have a destination', async () => {
    open();
    const answer = get('http://orders.shop/');
    await until('it is asked', () => dns.asked.length === 1);
    let closed = false;
    const closing = agent.close().then(() => {
      closed = true;
    });
    await expect(get('http://github.com/')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    await expect(get('http://stock.shop/')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(outside.origins).toEqual([]);
    expect(closed).toBe(false);
    // DNS says nothing: the host counts as none of ours.
    await clock.advanceAsync(2_000);
    await answer;
    expect(outside.origins).toEqual(['http://orders.shop']);
    await closing;
  });

  it('an agent destroyed while it closes fails requests that wait', async () => {
    open();
    const answer = get('http://orders.shop/');
    answer.catch(() => {});
    await until('it is asked', () => dns.asked.length === 1);
    const closing = agent.close();
    await agent.destroy();
    await closing;
    await expect(answer).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(agent.snapshot().pending).toBe(0);
  });
});

describe('a Service without requests', () => {
  it('is closed between one and two idle timeouts later, and comes back when it is used again', async () => {
    open({ idleTimeoutMs: 10_000 });
    await get('http://orders.shop/');
    const balancer = agent.balancers.get('http://orders.shop');
    await clock.advanceAsync(10_000);
    expect(balanced()).toEqual(['http://orders.shop']);
    await get('http://orders.shop/');
    await clock.advanceAsync(10_000);
    expect(balanced()).toEqual(['http://orders.shop']);
    await clock.advanceAsync(10_000);
    expect(balanced()).toEqual([]);
    expect(balancer?.snapshot().state).toBe('closed');
    expect(agent.snapshot().hosts).toEqual([]);
    await until('its connections are closed', async () => {
      const open = await new Promise<number>((resolve) => pod.getConnections((_error, count) => resolve(count)));
      return open === 0;
    });
    expect(await get('http://orders.shop/')).toBe('pod');
    expect(dns.asked).toEqual([...asked('orders'), ...asked('orders')]);
  });

  it('is not closed while a request runs on it', async () => {
    open({ idleTimeoutMs: 10_000 });
    const controller = new AbortController();
    const hanging = get('http://orders.shop/hang', { signal: controller.signal });
    hanging.catch(() => {});
    await until('it runs', () => hosts.length === 1);
    for (let step = 0; step < 5; step++) await clock.advanceAsync(10_000);
    expect(balanced()).toEqual(['http://orders.shop']);
    controller.abort();
    await expect(hanging).rejects.toThrow();
    for (let step = 0; step < 2; step++) await clock.advanceAsync(10_000);
    expect(balanced()).toEqual([]);
  });

  it('is closed when there is no room for another, once it had no request for 10 s; until then further Services are not balanced', async () => {
    open({ maxServices: 1 });
    expect(await get('http://orders.shop/')).toBe('pod');
    expect(await get('http://stock.shop/')).toBe('outside');
    await clock.advanceAsync(9_999);
    expect(await get('http://stock.shop/')).toBe('outside');
    expect(agent.snapshot()).toMatchObject({ overflow: 2, services: [{ origin: 'http://orders.shop' }] });
    await clock.advanceAsync(1);
    expect(await get('http://stock.shop/')).toBe('pod');
    expect(balanced()).toEqual(['http://stock.shop']);
  });

  it('is not closed to make room while it is used, or while a request runs on it', async () => {
    open({ maxServices: 1 });
    const controller = new AbortController();
    const hanging = get('http://orders.shop/hang', { signal: controller.signal });
    hanging.catch(() => {});
    await until('it runs', () => hosts.length === 1);
    for (let step = 0; step < 3; step++) {
      expect(await get('http://stock.shop/')).toBe('outside');
      await clock.advanceAsync(10_000);
    }
    controller.abort();
    await expect(hanging).rejects.toThrow();
    for (let step = 0; step < 3; step++) {
      expect(await get('http://orders.shop/')).toBe('pod');
      expect(await get('http://stock.shop/')).toBe('outside');
      await clock.advanceAsync(10_000);
    }
  });

  it('is closed before one that is used more: made-up URLs do not displace needed Services', async () => {
    open({ maxServices: 20 });
    for (let request = 0; request < 5; request++) await get('http://orders.shop/');
    // Names under somebody else's domain are no Services at all; ports of a real one are.
    for (let index = 0; index < 500; index++) await get(`http://n${index}.shop.svc.evil.example/`);
    expect(balanced()).toEqual(['http://orders.shop']);
    for (let port = 1_000; port < 1_100; port++) await get(`http://orders.shop:${port}/`);
    expect(balanced()).toHaveLength(20);
    await clock.advanceAsync(10_000);
    for (let port = 2_000; port < 2_010; port++) await get(`http://orders.shop:${port}/`);
    expect(await get('http://stock.shop/')).toBe('pod');
    expect(balanced()).toHaveLength(20);
    expect(balanced()).toContain('http://orders.shop');
    expect(balanced()).toContain('http://stock.shop');
  });
});

describe('an agent', () => {
  it('lists what it balances, and which hosts it leaves alone and why', async () => {
    dns.answers['A sick.shop.svc.cluster.local.'] = 'ESERVFAIL';
    open();
    await get('http://orders.shop:8080/');
    await get('http://github.com/');
    await get('http://sick.shop/');
    const snapshot = agent.snapshot();
    expect(JSON.parse(JSON.stringify(snapshot))).toEqual(snapshot);
    expect(snapshot).toMatchObject({
      services: [
        {
          origin: 'http://orders.shop:8080',
          name: 'orders.shop.svc.cluster.local.',
          balancer: { state: 'ready', endpoints: [{ started: 1 }] },
        },
      ],
      hosts: [
        { name: 'orders.shop.svc.cluster.local.', service: true },
        { name: 'github.com.svc.cluster.local.', service: false },
        { name: 'sick.shop.svc.cluster.local.', service: false, trouble: expect.stringContaining('ESERVFAIL') },
      ],
      pending: 0,
      overflow: 0,
    });
    expect(agent.balancers.get('http://orders.shop:8080')?.snapshot().endpoints).toHaveLength(1);
  });

  it('accepts another agent for hosts outside', async () => {
    const inner = createAppAgent({
      clock,
      fallbackDispatcher: outside,
      discovery: discovery(),
      options: toThePod,
      services: ['stock.shop'],
    });
    open({ services: ['orders.shop'], fallbackDispatcher: inner });
    expect(await get('http://orders.shop/')).toBe('pod');
    expect(await get('http://stock.shop/')).toBe('pod');
    expect(await get('http://example.com/')).toBe('outside');
    expect([...inner.balancers.keys()]).toEqual(['http://stock.shop']);
    // The inner one is its owner's to close.
    await agent.close();
    expect(inner.snapshot().services).toHaveLength(1);
    await inner.close();
  });

  it('passes on the error of a dispatcher outside that its owner has closed', async () => {
    const fallbackDispatcher = new undici.Agent();
    open({ fallbackDispatcher });
    await fallbackDispatcher.close();
    await expect(get('http://127.0.0.1:1/')).rejects.toMatchObject({
      code: expect.stringMatching(/^UND_ERR_(CLOSED|DESTROYED)$/),
    });
    await expect(get('http://github.com/')).rejects.toMatchObject({
      code: expect.stringMatching(/^UND_ERR_(CLOSED|DESTROYED)$/),
    });
    expect(await get('http://orders.shop/')).toBe('pod');
  });

  it('passes an error thrown by a dispatcher outside to the caller, or to the handler after a start', async () => {
    outside.dispatch = () => {
      throw new Error('out of order');
    };
    open();
    const options = { origin: 'http://10.0.0.1', path: '/', method: 'GET' } as const;
    const handler = {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData() {},
      onResponseEnd() {},
      onResponseError() {},
    };
    expect(() => agent.dispatch(options, handler)).toThrow('out of order');
    await expect(get('http://github.com/')).rejects.toThrow('out of order');
  });

  it('passes on the events of its dispatchers', async () => {
    open();
    const targets: unknown[][] = [];
    agent.on('connect', (_origin, path) => targets.push([...path]));
    await get('http://orders.shop/');
    expect(targets).toHaveLength(1);
    expect(targets[0]?.[0]).toBe(agent);
  });

  it('cuts running requests to hosts outside on destroy, and lets them finish on close', async () => {
    const { port } = pod.address() as { port: number };
    for (const how of ['destroy', 'close'] as const) {
      agent = createAppAgent({ clock, discovery: discovery() });
      const running = get(`http://127.0.0.1:${port}/${how === 'destroy' ? 'hang' : 'slow'}`);
      running.catch(() => {});
      await until('it runs', () => hosts.length === 1);
      hosts.length = 0;
      const closing = agent[how]();
      if (how === 'destroy') await expect(running).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
      else expect(await running).toBe('pod');
      await closing;
    }
  });

  it('cuts running requests to hosts outside 30 s after close', async () => {
    const { port } = pod.address() as { port: number };
    agent = createAppAgent({ clock, discovery: discovery() });
    const running = get(`http://127.0.0.1:${port}/hang`);
    running.catch(() => {});
    await until('it runs', () => hosts.length === 1);
    const closing = agent.close();
    clock.advance(29_999);
    expect(await Promise.race([running, new Promise((resolve) => setImmediate(resolve, 'runs'))])).toBe('runs');
    clock.advance(1);
    await expect(running).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    await closing;
  });

  it('leaves no timer behind', async () => {
    open();
    await get('http://orders.shop/');
    await get('http://github.com/');
    expect(clock.timers).toBeGreaterThan(0);
    await agent.close();
    expect(clock.timers).toBe(0);
  });

  it('does not apply TLS options for all Services to those without TLS', async () => {
    const { port } = pod.address() as { port: number };
    dns.answers[nameOf('orders')] = ['127.0.0.1'];
    agent = createAppAgent({
      discovery: { ...discovery(), allowAddresses: ['loopback'] },
      options: { tls: { rejectUnauthorized: true }, waitTimeoutMs: 60_000 },
    });
    expect(await get(`http://orders.shop:${port}/`)).toBe('pod');
  });

  it('closes once, also with a callback, and can be disposed of', async () => {
    open();
    await get('http://orders.shop/');
    await new Promise<void>((resolve) => agent.close(resolve));
    await agent[Symbol.asyncDispose]();
    await new Promise<void>((resolve) => agent.destroy(null, resolve));
  });
});

describe('the interceptor', () => {
  it('sends requests to Services to their pods and passes on all others', async () => {
    const services = appInterceptor({ clock, discovery: discovery(), options: toThePod });
    const composed = outside.compose(services);
    const ask = async (origin: string): Promise<unknown> => {
      const { headers, body } = await composed.request({ origin, path: '/', method: 'GET' });
      await body.dump();
      return headers['x-pod'];
    };
    expect(await ask('http://orders.shop')).toBe('pod');
    expect(await ask('http://github.com')).toBe('outside');
    expect([...services.balancers.keys()]).toEqual(['http://orders.shop']);
    expect(services.snapshot().services).toHaveLength(1);
    expect(services((_options, _handler) => true)).toHaveLength(2);
    await services.close();
    expect(services.snapshot().services[0]?.balancer.state).toBe('closed');
    // As if it were not there.
    expect(await ask('http://orders.shop')).toBe('outside');
  });

  it('passes on waiting requests when it is closed', async () => {
    dns.answers[nameOf('orders')] = silent;
    await using services = appInterceptor({ clock, discovery: discovery(), options: toThePod });
    const answer = outside.compose(services).request({ origin: 'http://orders.shop', path: '/', method: 'GET' });
    await until('it is asked', () => dns.asked.length === 1);
    await services.destroy();
    expect((await answer).headers['x-pod']).toBe('outside');
  });
});
