// @ts-check
/** A pod: greets each connection with its name, and answers each line with it. On SIGTERM it exits when all connections have left. */
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';

const name = process.env.POD_NAME ?? 'pod';

const server = createServer((socket) => {
  socket.write(`${name}\n`);
  socket.on('error', () => {});
  createInterface({ input: socket })
    .on('line', (line) => socket.write(`${name}: ${line}\n`))
    // readline re-emits the errors of its input on itself.
    .on('error', () => {});
});
server.listen(Number(process.env.PORT ?? 7000), '127.0.0.1', () => {
  process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
});
process.once('SIGTERM', () => server.close(() => process.exit()));
process.on('disconnect', () => process.exit());
