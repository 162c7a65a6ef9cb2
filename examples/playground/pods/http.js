// @ts-check
/** A pod's HTTP port: `/readyz` for the kubelet, everything else is a request of a client. */
import { createServer } from 'node:http';

/** @type {import('./pod.js').Serve} */
export function serveHttp({ name, work, connections }) {
  let leaving = false;
  const server = createServer(async (request, response) => {
    request.resume();
    if (request.url === '/readyz') {
      response.writeHead(work.fault === 'unready' ? 503 : 200, { connection: 'close' }).end();
      return;
    }
    const lane = String(request.headers['x-lane'] ?? '');
    connections.count(request.socket, lane);
    response.once('close', work.begin());
    const well = await work.take(lane, () => response.destroyed);
    const body = JSON.stringify({ pod: name });
    response.writeHead(well ? 200 : 500, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(leaving ? { connection: 'close' } : {}),
    });
    response.end(body);
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
    // Whoever asks once more is told not to ask on this connection again.
    async leave() {
      leaving = true;
    },
  };
}
