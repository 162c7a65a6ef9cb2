import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { until } from '../../support/until.js';

/** More than a body takes before it stops the parser. */
const LENGTH = 200_000;

let server: Server;
let sockets: Socket[];
/** How much of each answer is sent before the server hangs up. */
let sent: number;
let head: string;
let orders: ServiceDispatcher;

beforeEach(async () => {
  sockets = [];
  sent = LENGTH;
  head = `content-length: ${LENGTH}`;
  server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket
      .on('error', () => {})
      .once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n`);
        socket.end(Buffer.alloc(sent, 'x'));
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  orders = createDispatcher('http://orders.shop:8080', { resolver: `static:127.0.0.1:${port}` });
});
afterEach(async () => {
  await orders.destroy();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

/** The server has hung up, and we have heard of it. */
async function hungUp(): Promise<void> {
  await until('the server has hung up', () => sockets.at(-1)?.writableFinished === true);
  // What was sent over the loopback is there; it takes turns to be read, the end after all the rest.
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** The length of an answer of which nothing is read before the server has hung up. */
async function readLate(): Promise<number> {
  const { body } = await orders.request({ origin: 'http://orders.shop:8080', path: '/', method: 'POST' });
  await hungUp();
  let length = 0;
  for await (const chunk of body) {
    length += (chunk as Buffer).length;
    // What has come by now is told before the next piece is read.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return length;
}

it('a response that is read slowly is complete, though its pod hung up after it', async () => {
  for (let round = 0; round < 5; round++) expect(await readLate()).toBe(LENGTH);
});

it('a response that was cut off fails', async () => {
  sent = LENGTH - 1;
  await expect(readLate()).rejects.toThrow(/other side closed|terminated/);
});

it('a response that nobody reads any more keeps nothing open', async () => {
  const { body } = await orders.request({ origin: 'http://orders.shop:8080', path: '/', method: 'GET' });
  await hungUp();
  body.on('error', () => {}).destroy();
  // It waits until every socket is closed.
  await orders.close();
});

// The smaller one arrives in one piece, which stops the parser: the end is all that is left.
it.each([65_536, LENGTH])('a response that lasts until the pod hangs up is complete, with %i bytes', async (length) => {
  head = 'connection: close';
  sent = length;
  for (let round = 0; round < 5; round++) expect(await readLate()).toBe(length);
});

it('a response that lasts until the pod hangs up, and is abandoned before it is read, keeps nothing open', async () => {
  head = 'connection: close';
  sent = 65_536;
  const { body } = await orders.request({ origin: 'http://orders.shop:8080', path: '/', method: 'GET' });
  await hungUp();
  body.on('error', () => {}).destroy();
  await orders.close();
});
