/**
 * Three pods in one process, on ports of their own, that answer each request after a while: `node burst-server.mjs <ms>`. With
 * `ends` the first of them takes one connection and no other, and says so: connections that wait to be accepted at that moment are reset.
 */
import { createServer } from 'node:http';

const [, , delay, ends] = process.argv;
const delayMs = Number(delay);
const ports = await Promise.all(
  [0, 1, 2].map(
    (index) =>
      new Promise((resolve) => {
        const server = createServer((_, response) => void setTimeout(() => response.end('ok'), delayMs));
        if (index === 0 && ends === 'ends') {
          server.once('connection', () => {
            server.close();
            setImmediate(() => process.send?.('ended'));
          });
        }
        server.listen(0, '127.0.0.1', () => resolve(server.address().port));
      }),
  ),
);
process.send?.({ ports });
process.on('disconnect', () => process.exit());
