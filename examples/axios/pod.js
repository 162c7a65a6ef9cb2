// @ts-check
/**
 * A pod of the orders service.
 *
 *   node pod.js            listens on 8080, or on PORT
 *
 * On SIGTERM it shuts down in order: it serves on for a moment, until every client has noticed that it leaves, then sends
 * `Connection: close` with every response, and exits when the last connection is closed.
 */
import { createServer } from 'node:http';
import { hostname } from 'node:os';

const pod = process.env.POD_NAME ?? hostname();
let leaving = false;
let orders = 0;

const server = createServer((request, response) => {
  request.resume();
  if (leaving) response.setHeader('connection', 'close');
  response.setHeader('content-type', 'application/json');
  const id = request.method === 'POST' ? `${pod}-${++orders}` : (request.url ?? '').split('/').at(-1);
  request.on('end', () => response.end(JSON.stringify({ id, pod })));
});

server.listen(Number(process.env.PORT ?? 8080), () => {
  process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
});

process.once('SIGTERM', () => {
  setTimeout(
    () => {
      leaving = true;
      server.close(() => process.exit(0));
    },
    Number(process.env.GRACE_MS ?? 1_000),
  );
});
process.once('disconnect', () => process.exit(0));
