/**
 * A pod as cheap as can be: answers every request head on a connection with a fixed response. Real HTTP/1.1 on the wire,
 * but next to no work, so that the client is what limits the throughput.
 */
import { createServer } from 'node:net';

const BODY = JSON.stringify({ order: 42, state: 'shipped', note: 'x'.repeat(200) });
const RESPONSE = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
);
const END_OF_HEAD = Buffer.from('\r\n\r\n');

const server = createServer({ noDelay: true }, (socket) => {
  let rest = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    let data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = data.indexOf(END_OF_HEAD); end !== -1; end = data.indexOf(END_OF_HEAD)) {
      socket.write(RESPONSE);
      data = data.subarray(end + END_OF_HEAD.length);
    }
    rest = data;
  });
  socket.on('error', () => socket.destroy());
});
server.listen(0, '127.0.0.1', () => process.send?.({ port: /** @type {any} */ (server.address()).port }));
process.on('disconnect', () => process.exit());
