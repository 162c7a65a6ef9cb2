// @ts-check
/** Two Services with their pods, an API server and a DNS server: the surroundings of a pod. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createApiServer, createDnsServer } from '../../test/servers/index.js';

export async function startCluster() {
  const [apiServer, dnsServer] = await Promise.all([createApiServer(), createDnsServer()]);
  /** @type {Map<string, import('node:child_process').ChildProcess>} */
  const processes = new Map();

  /** Starts a server; resolves with its port. @param {string} name @returns {Promise<number>} */
  async function start(name) {
    const child = fork(fileURLToPath(new URL('server.js', import.meta.url)), [name]);
    processes.set(name, child);
    const [{ port }] = await once(child, 'message');
    return port;
  }

  /** A Service as DNS and the API server know it. @param {string} name @param {number} port */
  function createService(name, port) {
    // Its cluster IP: only the existence of the name matters here.
    dnsServer.kubernetes.set({ namespace: 'shop', name, clusterIPs: ['10.96.0.1'], ports: [{ name: 'http', port }] });
    const service = apiServer.service('shop', name, { ports: [{ name: 'http', port, targetPort: 'http' }] });
    return {
      /** @param {string} pod */
      async add(pod) {
        service.putPod({ name: pod, address: '127.0.0.1', ports: { http: await start(pod) } });
      },
      /** Like a failing node: the process is gone first, then the pod. @param {string} pod */
      kill(pod) {
        processes.get(pod)?.kill('SIGKILL');
        service.removePod(pod);
      },
    };
  }

  return {
    start,
    orders: createService('orders', 80),
    stock: createService('stock', 8080),
    /** What a pod finds out by itself. @type {import('evenkeel').TargetOptions} */
    discovery: {
      kubernetes: { apiServer: apiServer.url },
      dns: { servers: [dnsServer.address], clusterDomain: 'cluster.local', namespace: 'shop' },
      allowAddresses: ['loopback'],
    },
    async close() {
      for (const child of processes.values()) child.kill('SIGKILL');
      await Promise.all([apiServer.close(), dnsServer.close()]);
    },
  };
}
