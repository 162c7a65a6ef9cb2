import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buildConnector, Dispatcher } from 'undici';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PodClient, PodPool, type PodRequest } from '../../../src/adapter/undici/pod-pool.js';
import { until } from '../../support/until.js';

/** Requests the server has had, by path, and the number of the connection each came on. */
let seen: { path: string; connection: number }[];
let connections: Socket[];
/** What the server does with a request; by default it answers. */
let serve: (request: IncomingMessage, response: ServerResponse) => void;
let server: Server;
let pool: PodPool;

beforeEach(async () => {
  seen = [];
  connections = [];
  serve = (_request, response) => response.end('ok');
  server = createServer((request, response) => {
    seen.push({ path: String(request.url), connection: connections.indexOf(request.socket) });
    serve(request, response);
  });
  server.on('connection', (socket) => connections.push(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await pool.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const origin = (): URL => new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
const open = (count: number): void => {
  pool = new PodPool(origin(), { connections: count });
};
/** Passes on what it is told, in either form of undici's, and says when the answer is complete. */
function telling(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
  let client: PodClient | undefined;
  const request: PodRequest = {
    onClient: (given) => {
      client = given;
    },
  };
  return new Proxy(request, {
    get(target, name) {
      if (name in target) return Reflect.get(target, name);
      const own = Reflect.get(handler, name);
      if (typeof own !== 'function') return own;
      return (...values: unknown[]) => {
        if (name === 'onComplete' || name === 'onResponseEnd') client?.responseEnded();
        return own.apply(handler, values);
      };
    },
  }) as Dispatcher.DispatchHandler;
}

/** Sends requests as those that are sent again if they are lost. */
class Repeatables extends Dispatcher {
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    return pool.dispatchRepeatable(options, telling(handler));
  }
}
const repeatables = new Repeatables();
/** To the end of its body, so that the next may follow on the same connection. */
const send = async (through: Dispatcher, path: string, method: 'GET' | 'POST'): Promise<number> => {
  const { statusCode, body } = await through.request({ origin: origin(), path, method });
  await body.dump();
  return statusCode;
};
const get = (path: string): Promise<number> => send(repeatables, path, 'GET');
const post = (path: string): Promise<number> => send(pool, path, 'POST');
const paths = (): string[] => seen.map(({ path }) => path);

describe('the Pool of a pod', () => {
  it('sends the next request on the connection that has just become free', async () => {
    open(8);
    for (let count = 0; count < 10; count++) await get('/');
    expect(connections).toHaveLength(1);
  });

  it('lets a connection rest before a POST is sent on it', async () => {
    open(8);
    for (let count = 0; count < 10; count++) await post('/');
    for (let count = 1; count < 10; count++) expect(seen[count]?.connection).not.toBe(seen[count - 1]?.connection);
    await get('/');
    await post('/');
    expect(seen.at(-1)?.connection).not.toBe(seen.at(-2)?.connection);
  });

  it('opens one connection per concurrent caller, and no more, whatever the limit', async () => {
    open(32);
    await Promise.all(
      ['/a', '/b', '/c'].map(async (path) => {
        for (let count = 0; count < 20; count++) await get(path);
      }),
    );
    expect(seen).toHaveLength(60);
    expect(connections).toHaveLength(3);
  });

  it('reuses the connections it used last, and lets the others idle', async () => {
    open(8);
    await Promise.all(['/a', '/b', '/c', '/d', '/e'].map(get));
    expect(connections).toHaveLength(5);
    const rest = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    await rest();
    seen.length = 0;
    for (let round = 0; round < 10; round++) {
      await Promise.all(['/f', '/g'].map(get));
      await rest();
    }
    expect(seen).toHaveLength(20);
    expect(new Set(seen.map(({ connection }) => connection)).size).toBe(2);
    expect(connections).toHaveLength(5);
  });

  it('checks no other connection to find the one for a request', async () => {
    open(32);
    const answers: (() => void)[] = [];
    serve = (_request, response) => answers.push(() => response.end('ok'));
    const held = Array.from({ length: 20 }, () => get('/held'));
    await until('all are being served', () => answers.length === 20);
    serve = (_request, response) => response.end('ok');
    await get('/');
    const asked = vi.spyOn(PodClient.prototype, 'isFreeBeforeDrain', 'get');
    for (let count = 0; count < 10; count++) await get('/');
    expect(asked).toHaveBeenCalledTimes(10);
    asked.mockRestore();
    for (const answer of answers) answer();
    await Promise.all(held);
    expect(connections).toHaveLength(21);
  });

  it('gives a resting connection to one request only, whichever way the next one arrives', async () => {
    open(8);
    await get('/');
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    await Promise.all([get('/a'), post('/b'), get('/c'), post('/d')]);
    expect(new Set(seen.slice(1).map(({ connection }) => connection)).size).toBe(4);
  });

  it('skips connections that the server closed while they rested', async () => {
    open(8);
    await Promise.all(['/a', '/b', '/c'].map(get));
    let closed = 0;
    pool.on('disconnect', () => closed++);
    server.closeIdleConnections();
    await until('the connections are closed', () => closed === 3);
    await Promise.all(['/d', '/e', '/f'].map(get));
    expect(seen.map(({ path }) => path).sort()).toEqual(['/a', '/b', '/c', '/d', '/e', '/f']);
  });

  it('lets no request overtake those that wait for a connection', async () => {
    open(1);
    const first = get('/first').then(() => get('/third'));
    const second = get('/second');
    await Promise.all([first, second]);
    expect(paths()).toEqual(['/first', '/second', '/third']);
    expect(connections).toHaveLength(1);
  });

  it('sends nothing on a connection the server wants to close', async () => {
    open(1);
    serve = (_request, response) => response.setHeader('connection', 'close').end('ok');
    for (const path of ['/a', '/b', '/c']) expect(await get(path)).toBe(200);
    expect(seen.map(({ connection }) => connection)).toEqual([0, 1, 2]);
  });

  it('continues when a connection died with its request', async () => {
    open(2);
    await get('/');
    serve = (request) => request.socket.destroy();
    await expect(get('/lost')).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
    serve = (_request, response) => response.end('ok');
    expect(await get('/after')).toBe(200);
  });

  it('lets connections rest again once the server has hung up on a request that followed at once', async () => {
    open(8);
    await get('/');
    serve = (request) => request.socket.destroy();
    await expect(get('/lost')).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
    serve = (_request, response) => response.end('ok');
    for (let count = 0; count < 6; count++) await get('/after');
    const after = seen.filter(({ path }) => path === '/after').map(({ connection }) => connection);
    // Of two in a row the second finds the connection of the first not yet free, as in a Pool of undici's.
    for (let count = 1; count < after.length; count++) expect(after[count]).not.toBe(after[count - 1]);
  });

  it('does not let them rest when the server announces that it will hang up', async () => {
    open(8);
    await get('/');
    serve = (_request, response) => response.setHeader('connection', 'close').end('ok');
    await get('/last');
    serve = (_request, response) => response.end('ok');
    for (let count = 0; count < 6; count++) await get('/after');
    expect(seen.map(({ connection }) => connection)).toEqual([0, 0, 1, 1, 1, 1, 1, 1]);
  });

  it('continues when connections could not be opened', async () => {
    const failure = Object.assign(new Error('no way there'), { code: 'EHOSTUNREACH' });
    const connector = buildConnector({});
    let failing = 3;
    pool = new PodPool(origin(), {
      connections: 2,
      connect: (options, supplied) => {
        if (failing-- > 0) queueMicrotask(() => supplied(failure, null));
        else connector(options, supplied);
      },
    });
    const answers = await Promise.allSettled(['/a', '/b', '/c', '/d', '/e', '/f'].map(get));
    expect(answers.filter(({ status }) => status === 'rejected')).toHaveLength(3);
    expect(await get('/after')).toBe(200);
  });

  it('refuses requests after close, and finishes those that wait', async () => {
    open(1);
    const answers = [get('/a'), get('/b')];
    const late = answers[0]?.then(() => get('/late')).catch(({ code }) => code);
    const closed = pool.close();
    expect(await Promise.all(answers)).toEqual([200, 200]);
    expect(await late).toMatch(/^UND_ERR_(CLOSED|DESTROYED)$/);
    await closed;
    expect(paths()).toEqual(['/a', '/b']);
  });

  it('makes no request wait behind one that was refused', async () => {
    open(1);
    await get('/');
    for (let count = 0; count < 3; count++) {
      const refused = repeatables.request({ origin: origin(), path: '/', method: 'GET', headers: { 'x-a': 'a\nb' } });
      await expect(refused).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    }
    expect(await get('/')).toBe(200);
    expect(connections).toHaveLength(1);
  });
});
