import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { resetSocket } from '../../servers/index.js';

it.each([
  ['is open', () => {}],
  ['is just being shut down, which Node alone would never close', (socket: Socket) => socket.end()],
])('a connection that %s is closed when it is reset', async (_name, before) => {
  const server = createServer({ allowHalfOpen: true });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => {});
  const [socket] = (await once(server, 'connection')) as [Socket];
  const closed = once(socket, 'close');
  before(socket);
  resetSocket(socket);
  await closed;
  expect(socket.destroyed).toBe(true);
  client.destroy();
  await new Promise((resolve) => server.close(resolve));
});
