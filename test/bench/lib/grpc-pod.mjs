/**
 * A gRPC server as cheap as can be: HTTP/2 answers every request with the same message, whose first byte is the number
 * of this pod (argv[2]), and never the method Hang; without a gRPC library, so that the client is what limits the throughput.
 */
import { createServer } from 'node:http2';

const message = Buffer.alloc(250, Number(process.argv[2]));
const answer = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);

const server = createServer();
server.on('stream', (stream, headers) => {
  stream.on('error', () => {});
  if (String(headers[':path']).endsWith('/Hang')) return;
  stream.resume();
  stream.on('end', () => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(answer);
  });
});
server.on('sessionError', () => {});
server.listen(0, '127.0.0.1', () => process.send?.({ port: /** @type {any} */ (server.address()).port }));
process.on('disconnect', () => process.exit());
