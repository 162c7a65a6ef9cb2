// @ts-check
/** The called app: answers with the name of its pod, and shuts down without losing a request. */
import { createServer } from 'node:http';
import { hostname } from 'node:os';

const name = process.env.POD_NAME ?? hostname();
/** How long it still accepts requests after SIGTERM, until clients have noticed that it leaves. */
const LEAVING_MS = 5_000;
let leaving = false;

const server = createServer((request, response) => {
  if (request.url === '/ready') {
    response.writeHead(leaving ? 503 : 200).end();
    return;
  }
  // Tells keep-alive clients not to come back on this connection.
  if (leaving) response.setHeader('connection', 'close');
  response.end(name);
});

server.listen(Number(process.env.PORT ?? 0), process.env.HOST ?? '0.0.0.0', () => {
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  console.log(`${name} listens on ${port}`);
  process.send?.({ port });
});

process.once('SIGTERM', () => {
  leaving = true;
  setTimeout(() => server.close(() => process.exit(0)), LEAVING_MS);
});
process.once('disconnect', () => process.exit(0));
