/**
 * A pod as a process of its own: HTTP, HTTP/2 over TLS and gRPC, with `evenkeel/server` in front of an application that holds requests
 * for `/held` until it is told otherwise. It sends its parent its ports, and what came to the server and to the application.
 * `node asked-pod.mjs [reports|old|plain] [address]`: `old` reports, and knows no questions; `plain` has nothing of evenkeel.
 */
import { createServer } from 'node:http';
import * as grpc from '@grpc/grpc-js';
import { createPod } from 'evenkeel/server';

const kind = process.argv[2] ?? 'reports';
const address = process.argv[3] ?? '127.0.0.1';
const PROBE = '/.well-known/evenkeel-load';
const pod = createPod();
/** @type {{ to: string, path: string, headers: Record<string, unknown> }[]} */
let seen = [];

/** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response */
function application(request, response) {
  const { url = '', headers } = request;
  seen.push({ to: 'application', path: url, headers });
  if (url === '/held') response.writeHead(200).write('held');
  else if (url === PROBE) response.writeHead(404).end('<html>no such page</html>');
  else response.end('hello');
}

const reporting = pod.http(application);
const server = createServer((request, response) => {
  seen.push({ to: 'server', path: request.url ?? '', headers: request.headers });
  if (kind === 'plain' || (kind === 'old' && request.url === PROBE)) application(request, response);
  else reporting(request, response);
});

const calls = new grpc.Server(kind === 'plain' ? {} : { interceptors: [pod.grpc] });
if (kind === 'reports') {
  const { register } = calls;
  calls.register = (/** @type {any} */ name, /** @type {any} */ handler, /** @type {any[]} */ ...rest) => {
    const told = (/** @type {any} */ call, /** @type {any} */ reply) => {
      seen.push({ to: 'server', path: name, headers: call.metadata.getMap() });
      handler(call, reply);
    };
    return register.call(calls, name, /** @type {any} */ (told), .../** @type {[any, any, any]} */ (rest));
  };
  pod.addToServer(calls);
  calls.register = register;
}
const same = (/** @type {Buffer} */ bytes) => bytes;
const codec = { requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same };
calls.addService(
  { get: { path: '/shop.v1.Orders/Get', requestStream: false, responseStream: false, ...codec } },
  {
    get: (/** @type {any} */ call, /** @type {any} */ reply) => {
      seen.push({ to: 'application', path: call.getPath(), headers: call.metadata.getMap() });
      reply(null, Buffer.from('ok'));
    },
  },
);

server.listen(0, address, () => {
  calls.bindAsync(`${address}:0`, grpc.ServerCredentials.createInsecure(), (error, grpcPort) => {
    if (error) throw error;
    const bound = /** @type {import('node:net').AddressInfo} */ (server.address());
    process.send?.({ port: bound.port, grpcPort });
  });
});
process.on('message', (message) => {
  if (message !== 'seen') return;
  process.send?.({ seen, inFlight: pod.inFlight });
  seen = [];
});
process.on('disconnect', () => process.exit(0));
