/**
 * A server that leaves as `gracefulShutdown` does, as a process of its own: HTTP, WebSockets, gRPC, and plain TCP that answers with
 * what it gets. Sends its ports to the parent. `node leaving-pod.mjs <options as JSON> [http|http2]`
 */
import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer as createTcpServer } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import { gracefulShutdown } from 'evenkeel/server';
import { WebSocketServer } from 'ws';

const options = JSON.parse(process.argv[2] ?? '{}');
const isHttp2 = process.argv[3] === 'http2';

/** @param {any} request @param {any} response */
function serve(request, response) {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://pod');
  if (pathname === '/ready') return shutdown.readiness(request, response);
  if (pathname === '/live') return shutdown.liveness(request, response);
  if (pathname === '/started') return shutdown.startup(request, response);
  if (pathname === '/leaving') response.statusCode = shutdown.signal.aborted ? 200 : 404;
  request.resume();
  if (searchParams.has('flush')) response.flushHeaders();
  setTimeout(() => response.end('ok'), Number(searchParams.get('ms') ?? 1));
}
/** @type {any} */
const server = isHttp2 ? createHttp2Server(serve) : createServer(serve);
// A request that meets the end of an idle connection is lost, whether its pod leaves or not.
if (!isHttp2) server.keepAliveTimeout = 65_000;
const webSockets = new WebSocketServer({ noServer: true });
server.on('upgrade', (/** @type {any} */ request, /** @type {any} */ socket, /** @type {any} */ head) => {
  webSockets.handleUpgrade(request, socket, head, (webSocket) => webSockets.emit('connection', webSocket, request));
});

webSockets.on('connection', (socket) => socket.on('message', (message) => socket.send(String(message))));

const tcp = createTcpServer((socket) => {
  socket.on('error', () => {});
  socket.on('data', (bytes) => {
    if (socket.writable) socket.write(bytes);
  });
});

const calls = new grpc.Server();
const same = (/** @type {Buffer} */ bytes) => bytes;
const codec = { requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same };
calls.addService(
  { get: { path: '/shop.v1.Orders/Get', requestStream: false, responseStream: false, ...codec } },
  {
    // The first byte of a request says how long it takes, in tenths of a second.
    get: (/** @type {any} */ call, /** @type {any} */ reply) => {
      setTimeout(() => reply(null, Buffer.from('ok')), 1 + 100 * call.request[0]);
    },
  },
);

const shutdown = gracefulShutdown({
  http: server,
  grpc: calls,
  webSockets,
  tcp,
  finish: (socket) => socket.end('bye\n'),
  onDrained: () => new Promise((resolve) => process.send?.({ drained: true }, () => resolve(undefined))),
  ...options,
});
server.listen(0, '127.0.0.1', () => {
  calls.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, grpcPort) => {
    if (error) throw error;
    tcp.listen(0, '127.0.0.1', () => {
      const { port: tcpPort } = /** @type {import('node:net').AddressInfo} */ (tcp.address());
      process.send?.({ port: server.address().port, grpcPort, tcpPort });
    });
  });
});
process.on('message', (/** @type {string} */ message) => {
  if (message === 'ready') {
    shutdown.ready();
    process.send?.({ ready: true });
  }
});
// The parent is gone.
process.on('disconnect', () => process.exit(1));
