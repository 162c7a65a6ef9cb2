// @ts-check
/** Three pods, a Service in front of them that chooses per connection, and an API server that lists them. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createApiServer } from '../../test/servers/index.js';

export const PODS = ['pod-1', 'pod-2', 'pod-3'];

export async function startCluster() {
  /** @type {import('node:child_process').ChildProcess[]} */
  const children = [];

  /** Starts a process and resolves with the port it listens on. @param {string} file @param {...string} args @returns {Promise<{ child: import('node:child_process').ChildProcess, port: number }>} */
  const start = (file, ...args) =>
    new Promise((resolve, reject) => {
      const child = fork(fileURLToPath(new URL(file, import.meta.url)), args);
      children.push(child);
      child.once('message', (/** @type {{ ports: { http: number } }} */ { ports }) =>
        resolve({ child, port: ports.http }),
      );
      child.once('exit', () => reject(new Error(`${file} ended before it listened`)));
    });

  const pods = await Promise.all(PODS.map((name) => start('pod.js', name)));
  const proxy = await start('../playground/service-proxy-process.js', 'http');
  proxy.child.send({ type: 'pods', pods: { http: pods.map(({ port }) => ({ host: '127.0.0.1', port })) } });

  const apiServer = await createApiServer();
  const service = apiServer.service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 'http' }] });
  service.setPods(
    pods.map(({ port }, index) => ({ name: PODS[index] ?? '', address: '127.0.0.1', ports: { http: port } })),
  );

  return {
    serviceUrl: `http://127.0.0.1:${proxy.port}`,
    apiServerUrl: apiServer.url,
    async close() {
      for (const child of children) child.kill('SIGKILL');
      await apiServer.close();
    },
  };
}
