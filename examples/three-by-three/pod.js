// @ts-check
/** One pod: a process that answers every request with its name. */
import { createServer } from 'node:http';

const name = process.argv[2] ?? 'pod';

const server = createServer((request, response) => {
  request.resume();
  response.end(name);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ type: 'listening', ports: { http: typeof address === 'object' ? address?.port : 0 } });
});
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
