/**
 * A pod of another Service, in a process of its own, at the address one of ours had. It counts every byte that comes,
 * and below TLS every byte of a request. It answers, so that nobody would notice.
 *
 *   any message    is answered with the counts
 *
 * Options as JSON in argv[2]: port, tls.
 */
import { createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

const { port, tls } = JSON.parse(process.argv[2]);
const counts = { connections: 0, rawBytes: 0, requestBytes: 0, ids: [] };

function serve(socket) {
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    counts.requestBytes += chunk.length;
    for (const [, id] of chunk.toString('latin1').matchAll(/x-id: (\S+)/g)) counts.ids.push(id);
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nother');
  });
}

const secure = tls && createTlsServer(tls, serve).on('tlsClientError', () => {});
const server = createServer((socket) => {
  counts.connections++;
  socket.on('error', () => {});
  if (secure === undefined) {
    socket.on('data', (chunk) => {
      counts.rawBytes += chunk.length;
    });
    serve(socket);
    return;
  }
  // Counted on its way into TLS.
  const emit = socket.emit;
  let before = 0;
  const count = () => {
    counts.rawBytes += socket.bytesRead - before;
    before = socket.bytesRead;
  };
  socket.emit = function (...event) {
    count();
    return emit.apply(this, event);
  };
  secure.emit('connection', socket);
});

process.on('message', () => process.send({ counts }));
process.on('disconnect', () => process.exit());
server.listen(port, '127.0.0.1', () => process.send({ listening: true }));
