import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { until } from '../../support/until.js';

let server: Server;
/** Answers still to be given, in the order of their requests. */
let arrived: { readonly url: string | undefined; readonly response: ServerResponse }[];
let orders: ServiceDispatcher;

beforeEach(async () => {
  arrived = [];
  server = createServer(({ url }, response) => arrived.push({ url, response }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  orders = createDispatcher('http://orders.shop:8080', {
    resolver: `static:127.0.0.1:${port}`,
    connections: 1,
    retry: { maxAttempts: 1, budget: { ratio: 0, minPerSecond: 0 } },
  });
});
afterEach(async () => {
  await orders.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const send = async (path: string, method: 'GET' | 'POST'): Promise<number | string> => {
  try {
    const { statusCode, body } = await orders.request({ path, method });
    await body.dump();
    return statusCode;
  } catch (error) {
    return (error as { code: string }).code;
  }
};

it.each(['GET', 'POST'] as const)(
  'a %s that waits behind one whose connection dies is sent over the next one, even if nothing may be repeated',
  async (method) => {
    const first = send('/first', method);
    await until('the first request has arrived', () => arrived.length === 1);
    const second = send('/second', method);
    arrived[0]?.response.socket?.destroy();
    expect(await first).toBe('UND_ERR_SOCKET');
    await until('the second request has arrived', () => arrived.length === 2);
    arrived[1]?.response.end();
    expect(await second).toBe(200);
    expect(arrived.map(({ url }) => url)).toEqual(['/first', '/second']);
  },
);
