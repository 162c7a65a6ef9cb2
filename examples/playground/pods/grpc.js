// @ts-check
/** A pod's gRPC port: the Orders service of `examples/grpc`, served by grpc-js. */
import { subscribe } from 'node:diagnostics_channel';
import { Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { Orders } from '../../grpc/orders.js';

/** @type {import('./pod.js').Serve} */
export function serveGrpc({ name, work, connections }) {
  let ownPort = 0;
  // grpc-js shows a call's peer, not its socket: the sockets of this port by their other end.
  /** @type {Map<string, import('node:net').Socket>} */
  const sockets = new Map();
  subscribe('net.server.socket', (message) => {
    const { socket } = /** @type {{ socket: import('node:net').Socket }} */ (message);
    if (socket.localPort !== ownPort) return;
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    sockets.set(peer, socket);
    socket.once('close', () => sockets.delete(peer));
  });

  const server = new Server();
  server.addService(Orders.service, {
    get: async (/** @type {any} */ call, /** @type {any} */ callback) => {
      const lane = String(call.metadata.get('x-lane')[0] ?? '');
      const socket = sockets.get(call.getPeer());
      if (socket !== undefined) connections.count(socket, lane);
      const end = work.begin();
      call.on('cancelled', end);
      const well = await work.take(lane, () => call.cancelled);
      end();
      if (well) callback(null, { id: call.request.id, state: 'paid', pod: name });
      else callback({ code: status.UNAVAILABLE, details: `${name} fails`, metadata: namedBy(name) });
    },
  });

  return {
    listen: (address, port) =>
      new Promise((resolve, reject) => {
        server.bindAsync(`${address}:${port}`, ServerCredentials.createInsecure(), (error, bound) => {
          ownPort = bound;
          if (error) reject(error);
          else resolve(bound);
        });
      }),
    // GOAWAY: no new call on these connections, running ones finish.
    leave: () => new Promise((resolve) => server.tryShutdown(() => resolve())),
  };
}

/** Failures say which pod they are from, too. @param {string} pod */
function namedBy(pod) {
  const metadata = new Metadata();
  metadata.set('x-pod', pod);
  return metadata;
}
