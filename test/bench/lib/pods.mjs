/** Pods to send requests to, and a stand-in for kube-proxy in front of them. */
import { buildConnector } from 'undici';
import { startChild } from './children.mjs';

/** Starts `count` pods, each a process of its own. @param {number} count */
export async function startPods(count) {
  const pods = await Promise.all(Array.from({ length: count }, () => startChild('pod.mjs')));
  const ports = pods.map(({ port }) => port);
  const anyPort = () => Number(ports[Math.floor(Math.random() * ports.length)]);
  const connector = buildConnector({});
  return {
    ports,
    origins: ports.map((port) => `http://127.0.0.1:${port}`),
    /** What kube-proxy does, at no cost to anybody: a pod at random for a connection, for good. */
    anyPort,
    /** The same as an undici connector. @type {import('undici').buildConnector.connector} */
    asKubeProxy: (options, callback) =>
      connector({ ...options, hostname: '127.0.0.1', port: String(anyPort()) }, callback),
    stop: () => {
      for (const pod of pods) pod.stop();
    },
  };
}
