// @ts-check
/**
 * A pod: an ordinary node:http server that reports how busy it is, and shuts down in order. It processes one request at a time, for WORK_MS. After
 * SIGTERM it serves on for DELAY_MS.
 */
import { createServer } from 'node:http';
import { createBackend, gracefulShutdown } from 'evenkeel/server';

const backend = createBackend();
const workMs = Number(process.env.WORK_MS ?? 10);
const delayMs = Number(process.env.DELAY_MS ?? 2_000);

/** When the waiting work will be done. */
let free = Promise.resolve();

const server = createServer(
  backend.http(async (_request, response) => {
    free = free.then(() => new Promise((resolve) => setTimeout(resolve, workMs)));
    await free;
    response.end(process.env.POD_NAME);
  }),
);
// At SIGTERM it serves on until callers have noticed, then exits with 0.
const shutdown = gracefulShutdown({ http: server, delayMs });

server.listen(0, '127.0.0.1', () => {
  shutdown.ready();
  const address = server.address();
  if (typeof address === 'object') process.send?.({ port: address?.port });
});
process.once('disconnect', () => process.exit(0));
