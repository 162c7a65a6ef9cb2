// A server of HTTP/2 in a thread of its own, for clients whose thread is blocked: it sends its settings, and when `state[0]` is 1 resets
// all connections, then sets it to 2.
import { createServer } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

const SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
const { state } = workerData;
const sockets = new Set();
const server = createServer((socket) => {
  sockets.add(socket);
  socket.on('error', () => {});
  socket.resume();
  socket.write(SETTINGS);
});
server.listen(0, '127.0.0.1', () => parentPort?.postMessage(server.address().port));
await Atomics.waitAsync(state, 0, 0).value;
for (const socket of sockets) socket.resetAndDestroy();
server.close();
Atomics.store(state, 0, 2);
Atomics.notify(state, 0);
