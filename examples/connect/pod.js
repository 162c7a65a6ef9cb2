// @ts-check
/** A pod: a server of Connect over HTTP/2 that answers with its name, and streams it. On SIGTERM it ends its streams, and exits. */
import { createServer } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Orders } from './orders.js';

const name = process.env.POD_NAME ?? 'pod';
let stopping = false;

const handler = connectNodeAdapter({
  routes: (router) => {
    router.service(Orders, {
      get: () => ({ value: name }),
      async *watch() {
        do {
          yield { value: name };
          await sleep(20);
        } while (!stopping);
      },
    });
  },
});

/** @type {Set<import('node:http2').ServerHttp2Session>} */
const sessions = new Set();
const server = createServer({ settings: { maxConcurrentStreams: 100 } }, handler);
server.on('session', (session) => {
  sessions.add(session);
  session.on('close', () => sessions.delete(session));
});
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
});

process.once('SIGTERM', () => {
  // GOAWAY: clients send no further call on these sessions, and running ones finish.
  for (const session of sessions) session.close();
  server.close(() => process.exit());
  setTimeout(() => {
    stopping = true;
  }, 300);
});
process.on('disconnect', () => process.exit());
