// @ts-check
/** One server in its own process: a pod, or the bank outside. Answers with its name and the request's host and path. */
import { createServer } from 'node:http';

const name = process.argv[2] ?? 'server';

const server = createServer((request, response) => {
  request.resume();
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ pod: name, host: request.headers.host, path: request.url }));
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ port: typeof address === 'object' ? address?.port : 0 });
});
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
