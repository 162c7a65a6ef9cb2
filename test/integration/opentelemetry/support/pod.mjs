/** A pod with OpenTelemetry: serves HTTP on one port and gRPC on another, and tells its parent process of its spans. */
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { ordersService } from './orders-service.mjs';

// With `require`, as most applications do: that is what the instrumentations replace without a loader.
const require = createRequire(import.meta.url);
const grpc = require('@grpc/grpc-js');
const { createServer: createHttpServer } = require('node:http');

const [name = 'pod'] = process.argv.slice(2);
let behavior = {};
process.on('message', (message) => {
  if (message.behave !== undefined) behavior = message.behave;
  process.send?.({ did: message.id });
});

const http = (createHttpServer ?? createServer)((request, response) => {
  if (behavior.reset) {
    request.socket.resetAndDestroy();
    return;
  }
  if (behavior.hang) return;
  const answer = () => {
    response.writeHead(behavior.status ?? 200, { 'content-type': 'text/plain' });
    response.end(name);
  };
  if (behavior.delayMs) setTimeout(answer, behavior.delayMs);
  else answer();
});
await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));

const server = new grpc.Server();
server.addService(ordersService, {
  Get: (_call, done) => {
    if (behavior.hang) return;
    if (behavior.code) done({ code: behavior.code, details: 'as it was told' });
    else done(null, name);
  },
  List: (call) => {
    for (let i = 0; i < 3; i++) call.write(`${name} ${i}`);
    if (!behavior.hang) call.end();
  },
});
const grpcPort = await new Promise((resolve, reject) => {
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
    error ? reject(error) : resolve(port),
  );
});
process.send?.({ ports: { http: http.address().port, grpc: grpcPort } });
process.on('disconnect', () => process.exit());
