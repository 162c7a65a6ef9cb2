import { Server as NetServer } from 'node:net';
import { TLSSocket } from 'node:tls';

/**
 * The process of a pod. It serves one pod after the other: to start a process and load a server's libraries takes far longer than most
 * tests.
 *
 *   argv[2]               options of the first pod, as JSON
 *   { serve: options }    those of the next one, after `stop`
 *   { stop: true }        ends the pod without a word: its connections are reset, its port is free
 *   anything else         for the pod that runs
 *
 * @param {(options: any) => Promise<HostedPod> | HostedPod} serve Starts a pod, which itself tells when it listens.
 *
 * @typedef {object} HostedPod
 * @property {(message: any) => void} onMessage
 * @property {() => void} stop
 */
export function hostPods(serve) {
  /** @type {HostedPod | undefined} */
  let pod;
  process.on('message', async (message) => {
    if (message.serve) pod = await serve(message.serve);
    else if (message.stop) {
      pod?.stop();
      process.send?.({ stopped: true });
    } else pod?.onMessage(message);
  });
  process.on('disconnect', () => process.exit());
  const first = process.argv[2];
  if (first !== undefined) void Promise.resolve(serve(JSON.parse(first))).then((started) => (pod = started));
}

/** Ends a server at once, with its connections. @param {import('node:net').Server} server @param {Iterable<import('node:net').Socket>} sockets */
export function endServer(server, sockets) {
  NetServer.prototype.close.call(server);
  // A socket of TLS cannot be reset.
  for (const socket of sockets) socket instanceof TLSSocket ? socket.destroy() : socket.resetAndDestroy();
}
