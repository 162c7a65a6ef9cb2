import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createAppAgent, createDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** What docs/reference/undici-differences.md says. */
let server: Server;
let sockets: Socket[];
let answer: (socket: Socket, index: number) => void;
let origin: string;

beforeEach(async () => {
  sockets = [];
  answer = (socket) => socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
  server = createServer((socket) => {
    socket.on('error', () => {});
    answer(socket, sockets.push(socket) - 1);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  server.close();
  await once(server, 'close');
});

const get = () => ({ origin, path: '/', method: 'GET' }) as const;
const codeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no error',
    (error) => error.code,
  );

const kinds = {
  undici: { make: () => new undici.Pool(origin), code: 'UND_ERR_DESTROYED' },
  createDispatcher: { make: () => createDispatcher(origin), code: 'EVENKEEL_CLOSED' },
  createAppAgent: {
    make: () => createAppAgent({ services: () => true }),
    code: 'EVENKEEL_CLOSED',
  },
};

describe.each(Object.entries(kinds))('%s', (name, { make, code }) => {
  it('has these codes after close() and destroy()', async () => {
    const one = make();
    await one.close();
    expect(await codeOf(one.request(get()))).toBe(code);
    const other = make();
    const waiting = codeOf(other.request(get()));
    await other.destroy();
    expect([await waiting, await codeOf(other.request(get()))]).toEqual([code, code]);
    expect(await codeOf(other.close())).toBe(name === 'undici' ? code : 'no error');
  });

  it('fails running requests with undici’s code when it is destroyed', async () => {
    answer = (socket) => socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nok'));
    const subject = make();
    const { body } = await subject.request(get());
    const read = codeOf(body.text());
    await subject.destroy();
    expect(await read).toBe('UND_ERR_DESTROYED');
  });

  it('can be aborted in onRequestStart, before a connection is opened', async () => {
    const subject = make();
    const told: unknown[] = [];
    await new Promise<void>((resolve) => {
      subject.dispatch(get(), {
        onRequestStart: (controller: undici.Dispatcher.DispatchController) => {
          told.push(sockets.length);
          controller.abort(new Error('given up'));
        },
        onResponseStart() {},
        onResponseData() {},
        onResponseEnd() {},
        onResponseError: (_controller: unknown, error: Error) => {
          told.push(error.message);
          resolve();
        },
      });
    });
    expect(told.at(-1)).toBe('given up');
    if (name !== 'undici') expect(told).toEqual([0, 'given up']);
    await subject.destroy();
  });
});

it('a request queued after a broken response uses another connection', async () => {
  answer = (socket, index) => {
    socket.on('data', () => {
      if (index === 0) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1and more of it\r\n');
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    });
  };
  const orders = createDispatcher(origin, { connections: 1 });
  const texts = await Promise.all(
    [1, 2].map(async () => {
      const { body } = await orders.request({ ...get(), method: 'POST', body: 'once' });
      return body.text();
    }),
  );
  expect(texts.sort()).toEqual(['1', 'ok']);
  await orders.close();
});

it('an undici Agent whose factory makes dispatchers emits `drain` when nothing is waiting any more', async () => {
  const agent = new undici.Agent({ factory: (to) => createDispatcher(to) });
  const drained = once(agent, 'drain');
  const { body } = await agent.request(get());
  expect(await body.text()).toBe('ok');
  const [, targets] = await drained;
  expect(targets[0]).toBe(agent);
  expect(targets).toHaveLength(2);
  await agent.close();
});
