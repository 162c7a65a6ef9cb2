/**
 * One pod of the Service: HTTP, WebSockets and gRPC in one process. No answer says which pod gave it; each pod counts its own.
 *
 *   fork('pod.mjs', [host, httpPort, grpcPort]); sends { ports } when it listens. It takes:
 *   { count: true } answers { served }
 *   { end: ms }     as a pod after SIGTERM: serves on for this long, then ends its connections in order
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { loadPackageDefinition, Server, ServerCredentials } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { WebSocketServer } from 'ws';

const [host, httpPort, grpcPort] = process.argv.slice(2);
/** How long connections get to end once the pod has stopped to serve. */
const LEAVE_MS = 2_000;
let served = 0;
let isLeaving = false;
/** Streams of events, which end with the pod. */
const streams = new Set();

/** A little work, as long for the same order on every pod. */
const work = (id) => new Promise((resolve) => setTimeout(resolve, 2 + (Number(id) % 8)));
const orderOf = (id) => ({ id, state: 'shipped', note: `order ${id} `.repeat(20) });

/** The subgraph as its schema says. */
const schema = 'type Order { id: ID! state: String note: String } type Query { order(id: ID!): Order }';

const server = createServer(async (request, response) => {
  const body = await bodyOf(request);
  const { pathname } = new URL(request.url, 'http://pod');
  const id = /\d+$/.exec(pathname)?.[0] ?? '0';
  const answer = (value) => {
    if (isLeaving) response.setHeader('connection', 'close');
    response.setHeader('content-type', 'application/json').setHeader('x-elastic-product', 'Elasticsearch');
    response.end(JSON.stringify(value));
  };
  if (pathname === '/graphql') {
    const { query, variables } = JSON.parse(body);
    if (query.includes('_service')) return answer({ data: { _service: { sdl: schema } } });
    served++;
    const order = variables?.id ?? /id:\s*"(\d+)"/.exec(query)?.[1];
    await work(order);
    return answer({ data: { order: orderOf(order) } });
  }
  served++;
  await work(id);
  if (pathname.startsWith('/events/')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`data: ${JSON.stringify(orderOf(id))}\n\n`);
    streams.add(response);
    response.on('close', () => streams.delete(response));
    return;
  }
  if (pathname.startsWith('/documents/_doc/')) {
    return answer({ _index: 'documents', _id: id, found: true, _source: orderOf(id) });
  }
  if (pathname === '/chat/completions') {
    const { messages } = JSON.parse(body);
    const message = { role: 'assistant', content: `echo ${messages.at(-1).content}` };
    return answer({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices: [{ index: 0, message }] });
  }
  if (request.method === 'GET') return answer(orderOf(id));
  answer({ received: body.length, hash: createHash('sha256').update(body).digest('hex') });
});

const sockets = new WebSocketServer({ server, path: '/socket' });
sockets.on('connection', (socket) => {
  socket.on('message', async (data) => {
    served++;
    await work(data);
    socket.send(JSON.stringify(orderOf(String(data))));
  });
});

const { shop } = loadPackageDefinition(loadSync(fileURLToPath(new URL('orders.proto', import.meta.url))));
const grpc = new Server();
grpc.addService(shop.Orders.service, {
  async Get({ request: { id } }, reply) {
    served++;
    await work(id);
    reply(null, { id, state: 'shipped' });
  },
});

async function bodyOf(request) {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text;
}

function leave() {
  isLeaving = true;
  server.close();
  for (const stream of streams) stream.end();
  for (const socket of sockets.clients) socket.close(1001);
  grpc.tryShutdown(() => {});
  setTimeout(() => process.exit(), LEAVE_MS).unref();
  // A pod whose last connection has ended is gone.
  process.disconnect();
}

process.on('message', (message) => {
  if (message.count) process.send({ served });
  if (message.end !== undefined) setTimeout(leave, message.end);
});
process.on('disconnect', () => {
  if (!isLeaving) process.exit();
});

const listening = new Promise((resolve) => server.listen(Number(httpPort), host, resolve));
const bound = new Promise((resolve, reject) => {
  grpc.bindAsync(`${host}:${grpcPort}`, ServerCredentials.createInsecure(), (error, port) =>
    error === null ? resolve(port) : reject(error),
  );
});
await listening;
process.send({ ports: { http: server.address().port, grpc: await bound } });
