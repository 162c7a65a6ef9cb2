// @ts-check
/** A tiny line protocol: answers every line with its own name and the line. Runs in its own process. */
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';

const name = process.argv[2] ?? 'server';

const server = createServer((socket) => {
  socket.on('error', () => socket.destroy());
  const lines = createInterface({ input: socket });
  lines.on('line', (line) => socket.write(`${name} ${line}\n`));
  // readline re-emits the errors of its input on itself.
  lines.on('error', () => {});
});

server.listen(0, '127.0.0.1', () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.send?.(address.port);
});
process.on('disconnect', () => process.exit());
