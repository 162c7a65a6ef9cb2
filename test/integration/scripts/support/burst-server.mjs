/** Three pods in one process, on ports of their own, that answer each request after a while: `node burst-server.mjs <ms>`. */
import { createServer } from 'node:http';

const delayMs = Number(process.argv[2]);
const ports = await Promise.all(
  [0, 1, 2].map(
    () =>
      new Promise((resolve) => {
        const server = createServer((_, response) => void setTimeout(() => response.end('ok'), delayMs));
        server.listen(0, '127.0.0.1', () => resolve(server.address().port));
      }),
  ),
);
process.send?.({ ports });
process.on('disconnect', () => process.exit());
