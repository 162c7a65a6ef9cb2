/**
 * As kube-proxy: listens on one port, and hands each connection to one of some others, at random, for good.
 *
 *   fork('connection-balancer.mjs', [port, …]); sends { port } when it listens
 */
import { connect, createServer } from 'node:net';

const ports = process.argv.slice(2).map(Number);
const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
  const port = /** @type {number} */ (ports[Math.floor(Math.random() * ports.length)]);
  const pod = connect({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true });
  const cut = () => {
    client.destroy();
    pod.destroy();
  };
  client.on('error', cut).pipe(pod);
  pod.on('error', cut).pipe(client);
});
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => process.send?.({ port: /** @type {any} */ (server.address()).port }));
