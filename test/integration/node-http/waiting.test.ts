import { AsyncLocalStorage } from 'node:async_hooks';
import { type ClientRequest, get, request } from 'node:http';
import type { Socket } from 'node:net';
import axios from 'axios';
import { type ObserverEvents, type Resolver, roundRobin, staticEndpoints } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import { FakeResolver } from 'evenkeel/testing';
import got from 'got';
import fetch from 'node-fetch';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { connected } from '../../support/fixtures/connected.js';
import { HangingEndpoint, refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { codeOf, Opened, running, send } from './support/request.js';

const origin = 'http://orders.shop:8080';
/** Knows nothing, for ever. */
const silent: Resolver = { name: 'silent', watch: () => ({ refresh() {}, close() {} }) };

const opened = new Opened();
const open = (options: AgentOptions): HttpServiceAgent => opened.add(createAgent(origin, options));
const errorOf = (outgoing: ClientRequest): Promise<Error> =>
  new Promise((resolve) => {
    outgoing.once('error', resolve);
  });
const closed = (outgoing: ClientRequest): Promise<void> =>
  new Promise((resolve) => {
    outgoing.once('close', () => resolve());
  });

afterEach(() => opened.destroyAll());

describe('a request that no pod can take', () => {
  it('waits, shown by the agent, and is sent when one can', async () => {
    await using pods = await Pods.start(1);
    const resolver = new FakeResolver();
    const agent = open({ resolver, waitTimeoutMs: 60_000 });
    const answer = send(agent, `${origin}/`, { method: 'POST', body: 'a body that waits too' });
    await until('it waits', () => running(agent) === 1);
    expect(Object.entries(agent.requests).map(([name, list]) => [name, list?.length])).toEqual([
      ['orders.shop:8080:', 1],
    ]);
    resolver.update(...pods.endpoints);
    expect(JSON.parse((await answer).body)).toMatchObject({ method: 'POST', length: 21 });
    expect(agent.requests).toEqual({});
  });

  it('fails after waitTimeoutMs, or at once where the queue is full or the Service empty', async () => {
    const agent = open({ resolver: silent, waitTimeoutMs: 50, maxWaiting: 1 });
    const first = send(agent, `${origin}/`);
    expect(await codeOf(send(agent, `${origin}/`))).toBe('EVENKEEL_QUEUE_FULL');
    expect(await codeOf(first)).toMatch(/EVENKEEL_(NOT_READY|RESOLVE)/);
    const empty = new FakeResolver();
    const toEmpty = open({ resolver: empty });
    empty.update();
    expect(await codeOf(send(toEmpty, `${origin}/`))).toBe('EVENKEEL_NO_ENDPOINTS');
    expect([running(agent), running(toEmpty)]).toEqual([0, 0]);
  });

  it.each<[string, AgentOptions, object]>([
    ['waits in vain', { waitTimeoutMs: 50 }, {}],
    ['misses its deadline', { deadlineMs: 50 }, {}],
    ['times out', {}, { timeout: 50 }],
  ])('%s in the async context of its caller', async (_how, options, more) => {
    const agent = open({ resolver: silent, ...options });
    const context = new AsyncLocalStorage<string>();
    const heard = ['ann', 'bob'].map((caller) =>
      context.run(caller, async () => {
        const outgoing = get(`${origin}/`, { agent, ...more });
        const contexts: unknown[] = [];
        outgoing.on('timeout', () => {
          contexts.push(context.getStore());
          outgoing.destroy();
        });
        outgoing.on('error', () => contexts.push(context.getStore()));
        await closed(outgoing);
        return new Set(contexts);
      }),
    );
    expect(await Promise.all(heard)).toEqual([new Set(['ann']), new Set(['bob'])]);
  });

  it.each<[string, (outgoing: ClientRequest, caller: AbortController) => void, object]>([
    ['destroy()', (outgoing) => outgoing.destroy(), { code: 'ECONNRESET', message: 'socket hang up' }],
    ['destroy(error)', (outgoing) => outgoing.destroy(new Error('enough')), { message: 'enough' }],
    ['his signal', (_outgoing, caller) => caller.abort(), { name: 'AbortError' }],
  ])('leaves the queue at once when its caller gives up by %s', async (_how, giveUp, error) => {
    const agent = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const caller = new AbortController();
    const outgoing = get(`${origin}/`, { agent, signal: caller.signal });
    const failed = errorOf(outgoing);
    const end = closed(outgoing);
    await until('it waits', () => running(agent) === 1);
    giveUp(outgoing, caller);
    expect(running(agent)).toBe(0);
    expect(await failed).toMatchObject(error);
    await end;
    expect(Object.hasOwn(outgoing, 'destroy')).toBe(false);
  });

  it('is aborted without an error by abort(), as by Node', async () => {
    const agent = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const outgoing = get(`${origin}/`, { agent });
    const heard: string[] = [];
    for (const event of ['abort', 'error', 'close']) outgoing.on(event, () => heard.push(event));
    outgoing.abort();
    await closed(outgoing);
    expect(heard).toEqual(['abort', 'close']);
    expect(running(agent)).toBe(0);
  });

  it.each<[string, (agent: HttpServiceAgent) => ClientRequest]>([
    ['the timeout option', (agent) => get(`${origin}/`, { agent, timeout: 50 })],
    ['setTimeout', (agent) => get(`${origin}/`, { agent }).setTimeout(50)],
    ['the last of several', (agent) => get(`${origin}/`, { agent, timeout: 3_600_000 }).setTimeout(50)],
  ])('emits timeout as set by %s, and its caller decides', async (_how, begin) => {
    const agent = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const outgoing = begin(agent);
    const failed = errorOf(outgoing);
    await new Promise<void>((resolve) => outgoing.once('timeout', () => resolve()));
    expect(running(agent)).toBe(1);
    outgoing.destroy(new Error('too late'));
    expect(await failed).toMatchObject({ message: 'too late' });
    expect(running(agent)).toBe(0);
  });

  it.each<[string, (agent: HttpServiceAgent) => ClientRequest]>([
    ['the timeout option', (agent) => get(`${origin}/hang`, { agent, timeout: 1_000 })],
    ['setTimeout', (agent) => get(`${origin}/hang`, { agent }).setTimeout(1_000)],
    ['the last of several', (agent) => get(`${origin}/hang`, { agent, timeout: 3_600_000 }).setTimeout(1_000)],
  ])('keeps its timeout as set by %s once it is sent', async (_how, begin) => {
    await using pods = await Pods.start(1);
    const resolver = new FakeResolver();
    const agent = open({ resolver, waitTimeoutMs: 60_000 });
    const outgoing = begin(agent).on('error', () => {});
    const sockets: unknown[] = [];
    outgoing.on('timeout', () => sockets.push(outgoing.socket));
    await until('it waits', () => running(agent) === 1);
    resolver.update(...pods.endpoints);
    await until('the pod has it', async () => (await pods.total('requests')) === 1);
    await until('its time is over', () => sockets.length > 0);
    expect(sockets).toEqual([expect.objectContaining({ timeout: 1_000 })]);
    outgoing.destroy();
  });

  it.each<[string, AgentOptions, string, (agent: HttpServiceAgent, url: string) => ClientRequest]>([
    ['the timeout option', {}, '/hang', (agent, url) => get(url, { agent, timeout: 50 })],
    ['setTimeout', {}, '/hang', (agent, url) => get(url, { agent }).setTimeout(50)],
    ['both', {}, '/hang', (agent, url) => get(url, { agent, timeout: 3_600_000 }).setTimeout(50)],
  ])('emits timeout once as set by %s, with %j for %s', async (_how, options, path, begin) => {
    await using pods = await Pods.start(1);
    const resolver = new FakeResolver();
    const agent = open({ resolver, waitTimeoutMs: 60_000, ...options });
    const outgoing = begin(agent, `${origin}${path}`).on('error', () => {});
    let times = 0;
    outgoing.on('timeout', () => {
      times++;
    });
    await until('its time is over', () => times === 1);
    const answered = new Promise((resolve) => outgoing.once('response', resolve));
    const sent = new Promise<Socket>((resolve) => outgoing.once('socket', resolve));
    resolver.update(...pods.endpoints);
    const socket = await sent;
    if (path === '/hang-body') await answered;
    await new Promise<void>((resolve) => socket.setTimeout(100, resolve));
    outgoing.setTimeout(1);
    await new Promise<void>((resolve) => socket.once('timeout', resolve));
    expect(times).toBe(1);
    outgoing.destroy();
  });

  const clients: Record<string, (agent: HttpServiceAgent, signal: AbortSignal) => Promise<unknown>> = {
    axios: (httpAgent, signal) => axios.get(`${origin}/`, { httpAgent, proxy: false, signal }),
    got: (http, signal) => got(`${origin}/`, { agent: { http }, signal, retry: { limit: 0 } }),
    'node-fetch': (agent, signal) => fetch(`${origin}/`, { agent, signal }),
    ws: (agent, signal) =>
      new Promise((resolve, reject) => {
        const socket = new WebSocket('ws://orders.shop:8080/', { agent }).once('open', resolve).once('error', reject);
        signal.addEventListener('abort', () => socket.terminate());
      }),
  };
  it.each(Object.entries(clients))('ends when its caller aborts it through %s', async (_name, begin) => {
    const agent = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const caller = new AbortController();
    const failed = expect(begin(agent, caller.signal)).rejects.toThrow();
    await until('it waits', () => running(agent) === 1);
    caller.abort();
    await failed;
    expect(running(agent)).toBe(0);
  });

  it("ends by got's own timeout", async () => {
    const agent = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const answer = got(`${origin}/`, { agent: { http: agent }, timeout: { request: 100 }, retry: { limit: 0 } });
    expect(await codeOf(answer)).toBe('ETIMEDOUT');
    expect(running(agent)).toBe(0);
  });

  it('that came before close() is still served; later ones are refused', async () => {
    await using pods = await Pods.start(1);
    const resolver = new FakeResolver();
    const agent = open({ resolver, waitTimeoutMs: 60_000 });
    const answer = send(agent, `${origin}/`, { method: 'POST', body: 'once' });
    const closed = agent.close();
    expect(await codeOf(send(agent, `${origin}/`))).toBe('EVENKEEL_CLOSED');
    resolver.update(...pods.endpoints);
    expect((await answer).status).toBe(200);
    await closed;
    expect(running(agent)).toBe(0);
  });

  it.each([
    ['close() when its time is over', { pool: { drainTimeoutMs: 50 } }, (agent: HttpServiceAgent) => agent.close()],
    ['destroy()', {}, async (agent: HttpServiceAgent) => agent.destroy()],
  ] as const)('fails at %s', async (_how, options, end) => {
    const agent = open({ resolver: silent, waitTimeoutMs: 60_000, ...options });
    const answer = send(agent, `${origin}/`);
    await until('it waits', () => running(agent) === 1);
    await end(agent);
    expect(await codeOf(answer)).toBe('EVENKEEL_CLOSED');
  });
});

describe('a request on a socket that was opened for none, or after many others', () => {
  it('fails in the async context of its caller on a socket that was opened ahead', async () => {
    await using pods = await Pods.start(1);
    const agent = open({ resolver: staticEndpoints(pods.endpoints) });
    await agent.balancer.ready();
    const context = new AsyncLocalStorage<string>();
    const heard = await context.run('ann', async () => {
      const outgoing = get(`${origin}/reset`, { agent });
      const contexts: unknown[] = [];
      for (const event of ['error', 'close']) outgoing.on(event, () => contexts.push(context.getStore()));
      await closed(outgoing);
      return contexts;
    });
    expect(heard).toEqual(['ann', 'ann']);
  });

  it('among hundreds that need a socket at once, gets its response in the async context of its caller', async () => {
    await using pods = await Pods.start(1);
    const agent = open({ resolver: staticEndpoints(pods.endpoints) });
    await agent.balancer.ready();
    const context = new AsyncLocalStorage<number>();
    const callers = Array.from({ length: 200 }, (_, caller) => caller);
    const heard = callers.map((caller) =>
      context.run(
        caller,
        () =>
          new Promise((resolve, reject) => {
            const outgoing = get(`${origin}/`, { agent }, (response) => {
              const store = context.getStore();
              response.resume().on('end', () => resolve(store));
            });
            outgoing.on('error', reject);
          }),
      ),
    );
    expect(await Promise.all(heard)).toEqual(callers);
  });
});

describe('a pod that accepts no connection', () => {
  it('fails no request of any method: they go to another pod', async () => {
    await using pods = await Pods.start(2);
    const ended: ObserverEvents['attemptEnded'][] = [];
    const agent = open({
      resolver: staticEndpoints(pods.endpoints),
      picker: roundRobin(),
      observer: { attemptEnded: (event) => void ended.push(event) },
    });
    await connected(agent.balancer, 2);
    // The first socket of each is busy; the next request to pod-0 needs another, which is refused.
    const busy = ['/hang', '/hang'].map((path) => get(`${origin}${path}`, { agent }).on('error', () => {}));
    await until('both are busy', async () => (await pods.total('requests')) === 2);
    await pods.at(0).stopListening();
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, id) =>
        send(agent, `${origin}/`, { method: 'POST', body: 'once', headers: { 'x-id': `post-${id}` } }),
      ),
    );
    expect(answers.map(({ status, headers }) => [status, headers['x-pod']])).toEqual(Array(6).fill([200, 'pod-1']));
    expect(Object.values(await pods.ids())).toEqual(Array(6).fill(1));
    const moved = ended.filter(({ retrying }) => retrying);
    expect(moved.length).toBeGreaterThan(0);
    for (const { outcome, error } of moved) {
      expect(outcome).toEqual({ kind: 'not-started', cause: 'connect' });
      expect(error).toMatchObject({ code: 'ECONNREFUSED' });
    }
    for (const outgoing of busy) outgoing.destroy();
  });

  it('costs at most the allowed attempts', async () => {
    await using pods = await Pods.start(2);
    const agent = open({ resolver: staticEndpoints(pods.endpoints), retry: { maxAttempts: 1 } });
    await connected(agent.balancer, 2);
    const busy = ['/hang', '/hang'].map((path) => get(`${origin}${path}`, { agent }).on('error', () => {}));
    await until('both are busy', async () => (await pods.total('requests')) === 2);
    for (const pod of pods.all) await pod.stopListening();
    expect(await codeOf(send(agent, `${origin}/`))).toBe('ECONNREFUSED');
    for (const outgoing of busy) outgoing.destroy();
  });

  it('from the start is waited for, and named in the error', async () => {
    const agent = open({ resolver: staticEndpoints([await refusingEndpoint()]), waitTimeoutMs: 100 });
    await until('it was refused', () => agent.balancer.snapshot().endpoints[0]?.lastError !== undefined);
    await expect(send(agent, `${origin}/`)).rejects.toMatchObject({
      code: 'EVENKEEL_NOT_READY',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  it('holds up a request no longer than its caller wants while a connection opens', async () => {
    const pod = await Pod.start({ backlog: 1 });
    const agent = open({ resolver: staticEndpoints([pod.endpoint]), pool: { connectTimeoutMs: 60_000 } });
    await connected(agent.balancer, 1);
    const first = request(`${origin}/hang`, { agent }).on('error', () => {});
    first.end();
    await until('the pod has the first request', async () => (await pod.stats()).requests === 1);
    await using _hanging = await HangingEndpoint.seize(pod);
    const second = get(`${origin}/`, { agent });
    const failed = errorOf(second);
    await until('the second is on its way', () => running(agent) === 2);
    expect(agent.balancer.snapshot().waiting).toBe(0);
    second.destroy();
    expect(running(agent)).toBe(1);
    expect(await failed).toMatchObject({ code: 'ECONNRESET' });
    first.destroy();
  });
});

describe('a pod that leaves while a connection to it opens', () => {
  it('is not sent the request, which goes to another pod', async () => {
    const leaving = await Pod.start({ name: 'leaving', backlog: 1 });
    await using pods = await Pods.start(1);
    const resolver = new FakeResolver();
    resolver.update(leaving.endpoint);
    const agent = open({ resolver, pool: { connectTimeoutMs: 60_000 } });
    await connected(agent.balancer, 1);
    const first = get(`${origin}/hang`, { agent }).on('error', () => {});
    await until('the pod has the first request', async () => (await leaving.stats()).requests === 1);
    const hanging = await HangingEndpoint.seize(leaving);
    const answer = send(agent, `${origin}/`, { method: 'POST', body: 'once' });
    await until('the second is on its way', () => running(agent) === 2);
    resolver.update(...pods.endpoints);
    await until('it has left', () => agent.balancer.snapshot().endpoints.some(({ state }) => state === 'draining'));
    await connected(agent.balancer, 1);
    leaving.thaw();
    expect((await answer).headers['x-pod']).toBe('pod-0');
    expect((await leaving.stats()).requests).toBe(1);
    first.destroy();
    await hanging[Symbol.asyncDispose]();
  });
});

describe('capacity', () => {
  it('gives a pod no more requests at once than `connections`; the rest wait', async () => {
    await using pods = await Pods.start(2);
    for (const pod of pods.all) await pod.behave({ delayMs: 50 });
    const agent = open({ resolver: staticEndpoints(pods.endpoints), connections: 2 });
    await connected(agent.balancer, 2);
    const answers = Promise.all(Array.from({ length: 20 }, () => send(agent, `${origin}/`)));
    await until('they wait', () => agent.balancer.snapshot().waiting === 16);
    expect((await answers).every(({ status }) => status === 200)).toBe(true);
    expect(await pods.total('connections')).toBeLessThanOrEqual(4);
  });

  it('by key sends requests with the same key to one pod', async () => {
    await using pods = await Pods.start(3);
    const { hash } = await import('../../../src/picker/hash.js');
    const agent = open({
      resolver: staticEndpoints(pods.endpoints),
      picker: hash(),
      key: (outgoing) => String(outgoing.getHeader('x-user')),
    });
    await connected(agent.balancer, 3);
    for (const user of ['ada', 'bob', 'eve']) {
      const seen = new Set<unknown>();
      for (let turn = 0; turn < 5; turn++) {
        seen.add((await send(agent, `${origin}/`, { headers: { 'x-user': user } })).headers['x-pod']);
      }
      expect(seen.size).toBe(1);
    }
  });
});
