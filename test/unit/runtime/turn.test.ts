import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { afterPendingIo } from '../../../src/runtime/turn.js';

it('a turn runs once, after waiting input was read, in the context of its caller', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as { port: number }).port, '127.0.0.1').resume();
  const [[other]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [[Socket], unknown];
  const context = new AsyncLocalStorage<string>();
  // Sent, and not read while this turn lasts.
  const sent = new Promise<void>((resolve) => other.end('bye', () => resolve()));
  await sent;
  const seen = await new Promise((resolve) => {
    context.run('caller', () => afterPendingIo(() => resolve([context.getStore(), socket.bytesRead])));
  });
  expect(seen).toEqual(['caller', 3]);
  socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});
