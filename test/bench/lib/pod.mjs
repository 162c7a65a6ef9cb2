/**
 * A pod as cheap as can be: answers every request head on a connection with a fixed response. Real HTTP/1.1 on the wire,
 * but next to no work, so that the client is what limits the throughput.
 *
 *   fork('pod.mjs', [host, port]); sends { port } when it listens. It takes:
 *   { delayMs }   from now on answers come so much later
 *   { count: id } answers { count: id, served }
 *   { end: ms }   as a pod after SIGTERM: keeps serving for this long, then closes each connection with its next answer, or at once
 *                 where none is awaited, and is gone when the last is closed
 */
import { createServer } from 'node:net';

const [host = '127.0.0.1', port = '0'] = process.argv.slice(2);
const BODY = JSON.stringify({ order: 42, state: 'shipped', note: 'x'.repeat(200) });
const answer = (/** @type {string} */ more) =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n${more}\r\n${BODY}`,
  );
const RESPONSE = answer('');
const LAST_RESPONSE = answer('connection: close\r\n');
const END_OF_HEAD = Buffer.from('\r\n\r\n');

let delayMs = 0;
let served = 0;
let ending = false;
/** Answers each connection still waits for. @type {Map<import('node:net').Socket, number>} */
const awaited = new Map();

/** @param {import('node:net').Socket} socket */
function respond(socket) {
  const left = Number(awaited.get(socket)) - 1;
  awaited.set(socket, left);
  if (ending) socket.end(LAST_RESPONSE);
  else socket.write(RESPONSE);
}

const server = createServer({ noDelay: true }, (socket) => {
  awaited.set(socket, 0);
  let rest = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    let data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (let end = data.indexOf(END_OF_HEAD); end !== -1; end = data.indexOf(END_OF_HEAD)) {
      served += 1;
      awaited.set(socket, Number(awaited.get(socket)) + 1);
      if (delayMs === 0) respond(socket);
      else setTimeout(respond, delayMs, socket);
      data = data.subarray(end + END_OF_HEAD.length);
    }
    rest = data;
  });
  socket.on('error', () => socket.destroy());
  socket.on('close', () => {
    awaited.delete(socket);
    if (ending && awaited.size === 0) process.exit();
  });
});

function leave() {
  ending = true;
  server.close();
  for (const [socket, answers] of awaited) if (answers === 0) socket.end();
  if (awaited.size === 0) process.exit();
}

process.on('message', (/** @type {{ delayMs?: number, count?: number, end?: number }} */ message) => {
  if (message.delayMs !== undefined) delayMs = message.delayMs;
  if (message.count !== undefined) process.send?.({ count: message.count, served });
  if (message.end !== undefined) setTimeout(leave, message.end);
});
process.on('disconnect', () => process.exit());
server.listen(Number(port), host, () => process.send?.({ port: /** @type {any} */ (server.address()).port }));
