// @ts-check
/** A pod: a WebSocket server that greets with its name. On SIGTERM it keeps its sockets until their clients have left. */
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

const name = process.env.POD_NAME ?? 'pod';
const server = createServer();
const sockets = new WebSocketServer({ server });
sockets.on('connection', (socket) => {
  socket.on('error', () => {});
  socket.send(name);
  // The last one has left.
  socket.on('close', () => {
    if (!server.listening && sockets.clients.size === 0) process.exit();
  });
});
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
});
process.once('SIGTERM', () => {
  server.close();
  if (sockets.clients.size === 0) process.exit();
});
process.on('disconnect', () => process.exit());
