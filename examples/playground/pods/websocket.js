// @ts-check
/** A pod's WebSocket port: a server of ws, which answers every message with the name of the pod. */
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

/** How long it waits for its clients to leave. */
const PATIENCE_MS = 1_500;

/** @type {import('./pod.js').Serve} */
export function serveWebSocket({ name, work, connections }) {
  const server = createServer();
  const { clients } = new WebSocketServer({ server }).on('connection', (socket, request) => {
    const lane = String(request.headers['x-lane'] ?? '');
    connections.count(request.socket, lane);
    socket.on('error', () => {});
    socket.on('message', async (data) => {
      const { id } = JSON.parse(String(data));
      const well = await work.take(lane, () => socket.readyState !== socket.OPEN);
      socket.send(JSON.stringify({ id, pod: name, ...(!well && { error: 'the pod failed it' }) }));
    });
  });
  return {
    listen: (address, port) =>
      new Promise((resolve, reject) => {
        server.on('error', reject);
        server.listen(port, address, () => {
          const bound = server.address();
          resolve(typeof bound === 'object' && bound !== null ? bound.port : 0);
        });
      }),
    // WebSockets never end by themselves. Those of clients that nobody told are cut when the process exits.
    leave: () =>
      new Promise((resolve) => {
        server.close();
        const over = () => {
          clearInterval(looking);
          clearTimeout(patience);
          resolve();
        };
        const looking = setInterval(() => {
          if (clients.size === 0) over();
        }, 50);
        const patience = setTimeout(over, PATIENCE_MS);
      }),
  };
}
