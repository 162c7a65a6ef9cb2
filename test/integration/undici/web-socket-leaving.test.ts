import type { Duplex } from 'node:stream';
import { inFlight, shortestExpectedDelay } from 'evenkeel';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import { createAppAgent, createDispatcher, type DispatcherOptions } from 'evenkeel/undici';
import { type Dispatcher, request, WebSocket } from 'undici';
import { describe, expect, it } from 'vitest';
import { closedAfterEach } from '../../support/opened.js';
import { WsPod } from '../../support/pods/ws-pods.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

const url = 'ws://chat.shop:8080';

async function world(options: DispatcherOptions) {
  const pods = (await WsPod.startAll(2)) as [WsPod, WsPod];
  open.push(...pods);
  const resolver = new FakeResolver();
  const dispatcher = createDispatcher('http://chat.shop:8080', {
    resolver,
    picker: shortestExpectedDelay(),
    load: inFlight(),
    ...options,
  });
  open.push({ [Symbol.asyncDispose]: () => dispatcher.destroy() });
  resolver.update(...pods.map(({ endpoint }) => endpoint));
  await dispatcher.balancer.ready();
  const states = () => dispatcher.balancer.snapshot().endpoints.map(({ state }) => state);
  await until('both are connected', () => states().filter((state) => state === 'ready').length === 2);
  return { dispatcher, resolver, pods };
}

async function opened(dispatcher: Dispatcher, count: number): Promise<{ sockets: WebSocket[]; codes: number[] }> {
  const codes: number[] = [];
  const sockets: WebSocket[] = [];
  for (let made = 0; made < count; made++) {
    const socket = new WebSocket(url, { dispatcher });
    socket.addEventListener('close', ({ code }) => void codes.push(code));
    // The greeting is compressed: undici forgets what it still decompresses when the connection ends, and the close code with it.
    await new Promise((resolve) => socket.addEventListener('message', resolve));
    sockets.push(socket);
  }
  return { sockets, codes };
}

describe('a pod that leaves', () => {
  it.each([
    ['at their turn', { webSocket: { closeLeaving: true, leaveSpreadMs: 100 } }, 4012],
    ['with the code given', { webSocket: { closeLeaving: true, leaveSpreadMs: 0, leaveCode: 1012 } }, 1012],
  ])('has its WebSockets closed %s, with a close frame', async (_when, options: DispatcherOptions, code) => {
    const { dispatcher, resolver, pods } = await world(options);
    const { codes } = await opened(dispatcher, 6);
    await until('both have three', () => pods.every(({ stats }) => stats.open === 3));
    resolver.update(pods[1].endpoint);
    await until('they are closed', () => codes.length === 3 && pods[0].stats.closes[code] === 3);
    expect(codes).toEqual([code, code, code]);
    expect(pods[0].stats.closes).toEqual({ [code]: 3 });
    await until('they are given back', () =>
      dispatcher.balancer.snapshot().endpoints.every(({ inFlight }) => inFlight <= 3),
    );
    expect(pods[1].stats.open).toBe(3);
  });

  it('has them closed before they would be cut', async () => {
    const clock = new FakeClock();
    const { dispatcher, resolver, pods } = await world({ clock, webSocket: { leaveSpreadMs: 0 } });
    const { codes } = await opened(dispatcher, 4);
    resolver.update(pods[1].endpoint);
    await clock.advanceAsync(28_900);
    expect(codes).toEqual([]);
    // Of 30 s the last is for closing.
    await clock.advanceAsync(200);
    await until('they are closed', () => codes.length === 2);
    expect(codes).toEqual([4012, 4012]);
  });

  it('notifies them', async () => {
    const told: [string, boolean][] = [];
    const { dispatcher, resolver, pods } = await world({
      webSocket: {
        leaveSpreadMs: 100,
        onLeaving: ({ reason, untilMs }, socket: Duplex) => {
          told.push([reason, untilMs > performance.now() && socket.writable]);
        },
      },
    });
    await opened(dispatcher, 4);
    resolver.update(pods[1].endpoint);
    await until('they were told', () => told.length === 2);
    expect(told).toEqual([
      ['endpoint', true],
      ['endpoint', true],
    ]);
  });

  it('notifies one of them through its request', async () => {
    const { dispatcher, resolver, pods } = await world({ webSocket: { leaveSpreadMs: 0 } });
    const sockets: WebSocket[] = [];
    const moved = [0, 1].map(() => {
      const own = dispatcher.compose((dispatch) => (options, handler) => {
        const onLeaving = (): void => socket.close(4000, 'moving');
        return dispatch({ ...options, onLeaving } as typeof options, handler);
      });
      const socket = new WebSocket(url, { dispatcher: own });
      sockets.push(socket);
      return new Promise((resolve) => socket.addEventListener('close', ({ code }) => resolve(code)));
    });
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.addEventListener('message', resolve))));
    resolver.update(pods[1].endpoint);
    expect(await Promise.race(moved)).toBe(4000);
    await until('it has left', () => pods[0].stats.closes[4000] === 1);
  });

  it('does not close other upgrades and requests', async () => {
    const { dispatcher, resolver, pods } = await world({ webSocket: { closeLeaving: true, leaveSpreadMs: 0 } });
    resolver.update(pods[1].endpoint);
    const { body, statusCode } = await request('http://chat.shop:8080/', { dispatcher });
    expect([statusCode, await body.text()]).toEqual([200, 'b']);
  });
});

it('a service agent passes its setting on to its Services', async () => {
  const pods = (await WsPod.startAll(2)) as [WsPod, WsPod];
  open.push(...pods);
  const resolver = new FakeResolver();
  const agent = createAppAgent({
    services: ['chat.shop'],
    options: () => ({ resolver, picker: shortestExpectedDelay(), load: inFlight() }),
    webSocket: { closeLeaving: true, leaveSpreadMs: 0, leaveCode: 4999 },
  });
  open.push({ [Symbol.asyncDispose]: () => agent.destroy() });
  resolver.update(...pods.map(({ endpoint }) => endpoint));
  const { codes } = await opened(agent, 4);
  await until('both have two', () => pods.every(({ stats }) => stats.open === 2));
  resolver.update(pods[1].endpoint);
  await until('they are closed', () => codes.length === 2);
  expect(codes).toEqual([4999, 4999]);
});

it('WebSockets are spread evenly after a scale-out if asked to', async () => {
  const { dispatcher, resolver, pods } = await world({ webSocket: { rebalance: { ratioPerMinute: 60 } } });
  let isOver = false;
  const codes = new Set<number>();
  const keep = (): void => {
    const socket = new WebSocket(url, { dispatcher });
    socket.addEventListener('close', ({ code }) => {
      if (isOver) return;
      codes.add(code);
      keep();
    });
  };
  for (let made = 0; made < 8; made++) keep();
  await until('they are open', () => pods.every(({ stats }) => stats.open === 4));
  const more = (await WsPod.startAll(2)) as [WsPod, WsPod];
  open.push(...more);
  resolver.update(...[...pods, ...more].map(({ endpoint }) => endpoint));
  await until('they are even', () => [...pods, ...more].every(({ stats }) => stats.open === 2));
  isOver = true;
  expect([...codes]).toEqual([4012]);
});

it('a pod that refused WebSockets gets its share once it accepts them', async () => {
  const [bad] = (await WsPod.startAll(1, { refuses: 'status' })) as [WsPod];
  const [good] = (await WsPod.startAll(1)) as [WsPod];
  open.push(bad, good);
  const resolver = new FakeResolver();
  const dispatcher = createDispatcher('http://chat.shop:8080', {
    resolver,
    picker: shortestExpectedDelay(),
    load: inFlight(),
    webSocket: { rebalance: { ratioPerMinute: 60 } },
  });
  open.push({ [Symbol.asyncDispose]: () => dispatcher.destroy() });
  resolver.update(bad.endpoint, good.endpoint);
  let isOver = false;
  const keep = (): void => {
    const socket = new WebSocket(url, { dispatcher });
    socket.addEventListener('error', () => {});
    socket.addEventListener('close', () => {
      if (!isOver) setTimeout(keep, 20);
    });
  };
  for (let made = 0; made < 24; made++) keep();
  await until('all are on the other pod', () => good.stats.open === 24);
  await bad.command('welcome');
  await until('it has enough of them', () => bad.stats.open >= 9);
  isOver = true;
});

it('close lets WebSockets finish, and closes them with a close frame', async () => {
  const { dispatcher, pods } = await world({ webSocket: { closeLeaving: true } });
  const { codes } = await opened(dispatcher, 2);
  await dispatcher.close();
  await until('they are closed', () => codes.length === 2);
  expect(codes).toEqual([4012, 4012]);
  await until('the pods know', () => pods.every(({ stats }) => stats.closes[4012] === 1));
});
