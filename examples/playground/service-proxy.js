// @ts-check
/**
 * What a ClusterIP does, as kube-proxy programs it: each new TCP connection goes to a random ready pod, and is never reconsidered. A
 * connection stays where it is when its pod becomes unready, and when new pods appear.
 *
 * The real one rewrites packets in the kernel and costs almost nothing; this one copies bytes in its own process. It learns about
 * changes at once, whereas the real one may lag by up to a second.
 */
import { connect, createServer } from 'node:net';

/** @typedef {{ host: string, port: number }} PodAddress */

/**
 * One port of a Service.
 * @param {object} [options]
 * @param {() => number} [options.random] uniform in [0, 1)
 */
export function createServiceProxy({ random = Math.random } = {}) {
  /** @type {readonly PodAddress[]} */
  let pods = [];
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();

  // Half-open both ways: a FIN is passed on as a FIN, a reset as a reset.
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (client) => {
    const drawn = pods[Math.floor(random() * pods.length)];
    if (drawn === undefined) {
      client.resetAndDestroy(); // kube-proxy rejects connections to a Service without ready pods
      return;
    }
    const pod = connect({ ...drawn, allowHalfOpen: true, noDelay: true });
    sockets.add(client).add(pod);
    client.on('error', () => pod.resetAndDestroy());
    pod.on('error', () => client.resetAndDestroy());
    client.on('close', () => {
      sockets.delete(client);
      pod.destroy();
    });
    pod.on('close', () => {
      sockets.delete(pod);
      client.destroySoon();
    });
    client.pipe(pod);
    pod.pipe(client);
    client.resume();
  });

  return {
    /** Resolves with the port it listens on. @returns {Promise<number>} */
    listen() {
      return new Promise((resolve, reject) => {
        server.on('error', reject);
        server.listen(0, '127.0.0.1', () => {
          const address = server.address();
          resolve(typeof address === 'object' && address !== null ? address.port : 0);
        });
      });
    },
    /** Where new connections may go. Existing connections are left alone. @param {readonly PodAddress[]} next */
    setPods(next) {
      pods = next;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
