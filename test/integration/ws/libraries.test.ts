import { FakeResolver } from 'evenkeel/testing';
import { createWebSockets, type ServiceWebSockets, type WebSocketsOptions } from 'evenkeel/ws';
import { createClient } from 'graphql-ws';
import { WebSocket as ReconnectingWebSocket } from 'partysocket';
import { io } from 'socket.io-client';
import { describe, expect, it } from 'vitest';
import { closedAfterEach } from '../../support/opened.js';
import { WsPod, type WsPodOptions } from '../../support/pods/ws-pods.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

const url = 'ws://chat.shop:8080';

async function world(kind: WsPodOptions['kind'], options: WebSocketsOptions = {}) {
  const pods = (await WsPod.startAll(3, { kind: kind ?? 'ws' })) as [WsPod, WsPod, WsPod];
  open.push(...pods);
  const resolver = new FakeResolver();
  const chat: ServiceWebSockets = createWebSockets(url, {
    resolver,
    closeLeaving: true,
    leaveSpreadMs: 100,
    ...options,
  });
  open.push({ [Symbol.asyncDispose]: () => chat.close({ signal: AbortSignal.abort() }) });
  resolver.update(...pods.map(({ endpoint }) => endpoint));
  await chat.balancer.ready();
  /** All pods but the first. */
  const leave = (): void => resolver.update(pods[1].endpoint, pods[2].endpoint);
  return { chat, pods, leave };
}

describe('socket.io-client', () => {
  it('is placed, leaves as its protocol does when asked to, and returns on another pod', async () => {
    const { chat, pods, leave } = await world('socket.io');
    const names: string[][] = [];
    const clients = Array.from({ length: 6 }, (_, index) => {
      const mine: string[] = [];
      names.push(mine);
      const socket = io('http://chat.shop:8080', {
        agent: chat.agent as never,
        transports: ['websocket'],
        forceNew: true,
        reconnectionDelay: 10 + index,
      });
      socket.on('name', (name: string) => mine.push(name));
      return socket;
    });
    await until('all are there', () => pods.every(({ stats }) => stats.open === 2));
    leave();
    await until('two have moved', () => names.filter((mine) => mine.length === 2).length === 2);
    expect(names.flat().filter((name) => name === 'a')).toHaveLength(2);
    await until('the pod is empty', () => pods[0].stats.open === 0);
    await until('the others have all', () => pods[1].stats.open + pods[2].stats.open === 6);
    const answer = await (clients[0] as (typeof clients)[0]).emitWithAck('echo', 'hello');
    expect(answer).toBe('hello');
    for (const client of clients) client.close();
    await until('all are closed', () => pods.every(({ stats }) => stats.open === 0));
  });
});

describe('graphql-ws', () => {
  it('uses the class, and continues its subscription on another pod', async () => {
    const { chat, pods, leave } = await world('graphql');
    const names: string[] = [];
    const clients = Array.from({ length: 3 }, () =>
      createClient({
        url: `${url}/graphql`,
        webSocketImpl: chat.WebSocket,
        retryAttempts: 10,
        retryWait: async () => {},
      }),
    );
    const errors: unknown[] = [];
    const ends = clients.map((client) =>
      client.subscribe<{ names: string }>(
        { query: 'subscription { names }' },
        {
          next: ({ data }) => void names.push(String(data?.names)),
          error: (error) => void errors.push(error),
          complete: () => {},
        },
      ),
    );
    await until('all pods send', () => new Set(names).size === 3);
    leave();
    await until('the pod is empty', () => pods[0].stats.open === 0 && pods[0].stats.closes[1012] === 1);
    const before = names.length;
    await until('the others send', () => names.length > before + 20);
    expect(new Set(names.slice(before + 3))).toEqual(new Set(['b', 'c']));
    expect(errors).toEqual([]);
    for (const end of ends) end();
    for (const client of clients) await client.dispose();
  });
});

describe('partysocket', () => {
  it('uses the class, keeps what is sent meanwhile, and reconnects', async () => {
    const { chat, pods, leave } = await world('ws');
    const sockets = Array.from({ length: 3 }, () => {
      const heard: string[] = [];
      const socket = new ReconnectingWebSocket(`${url}/rooms/7`, [], {
        WebSocket: chat.WebSocket,
        minReconnectionDelay: 10,
        maxReconnectionDelay: 50,
      });
      socket.addEventListener('message', ({ data }) => void heard.push(String(data)));
      return { socket, heard };
    });
    await until('all are open', () => sockets.every(({ heard }) => heard.length === 1));
    const moved = sockets.find(({ heard }) => heard[0]?.includes('"name":"a"'));
    moved?.socket.addEventListener('close', () => moved.socket.send('sent while it was closed'), { once: true });
    leave();
    await until('it has moved', () => moved?.heard.includes('sent while it was closed') === true);
    expect(pods[0].stats.closes).toEqual({ 1012: 1 });
    expect(moved?.heard[1]).toMatch(/"name":"[bc]"/);
    for (const { socket } of sockets) socket.close();
    await until('all are closed', () => pods.every(({ stats }) => stats.open === 0));
  });
});
