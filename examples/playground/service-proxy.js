// @ts-check
/**
 * What a ClusterIP does, as kube-proxy programs it: each new TCP connection goes to a ready pod drawn at random, and
 * nothing looks at it again. A connection stays where it is when its pod becomes unready, and when new pods appear.
 *
 * The real one rewrites packets in the kernel and costs nearly nothing; this one copies bytes in a process of its own.
 * It hears of changes at once, where the real one may be up to a second behind.
 */
import { connect, createServer } from 'node:net';

/**
 * @param {object} [options]
 * @param {() => number} [options.random] uniform in [0, 1)
 */
export function createServiceProxy({ random = Math.random } = {}) {
  /** Ports on 127.0.0.1. @type {readonly number[]} */
  let pods = [];
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();

  // Half-open both ways: a FIN is passed on as a FIN, a reset as a reset.
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (client) => {
    const port = pods[Math.floor(random() * pods.length)];
    if (port === undefined) {
      client.resetAndDestroy(); // kube-proxy rejects connections to a Service without ready pods
      return;
    }
    const pod = connect({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true });
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
    /** Resolves with the port it listens on. */
    listen() {
      return new Promise((resolve, reject) => {
        server.on('error', reject);
        server.listen(0, '127.0.0.1', () => {
          const address = server.address();
          resolve(typeof address === 'object' && address !== null ? address.port : 0);
        });
      });
    },
    /** Where new connections may go: ports on 127.0.0.1. Existing connections are left alone. @param {readonly number[]} ports */
    setPods(ports) {
      pods = ports;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
