// @ts-check
/**
 * The API server, the controller that writes a Service's EndpointSlices from its pods, and the cluster's DNS.
 *
 * Where pods share 127.0.0.1 and differ by port, like pods behind a named `targetPort`, there is one slice per port number, and no
 * headless Service, because DNS answers contain only addresses.
 */
import { createApiServer, createDnsServer } from '../../test/servers/index.js';

const NAMESPACE = 'shop';

/**
 * @param {import('./workloads.js').Workload} workload
 * @param {Readonly<Record<string, number>>} servicePorts the Service's ports by name: those of its stand-in
 * @param {boolean} withDns
 */
export async function createControlPlane({ name, ports }, servicePorts, withDns) {
  const apiServer = await createApiServer();
  const service = apiServer.service(NAMESPACE, name, {
    ports: ports.map((port) => ({
      name: port.name,
      port: servicePorts[port.name] ?? port.port,
      targetPort: port.name,
    })),
  });
  const dns = withDns ? await createDnsServer() : undefined;
  // A second Service for the same pods, without a cluster IP: its name resolves to theirs.
  const headless = { namespace: NAMESPACE, name: `${name}-headless` };
  return {
    url: apiServer.url,
    namespace: NAMESPACE,
    headless: dns && { host: dns.kubernetes.nameOf(headless), dnsServer: dns.address },
    /** Writes what changed since the last call. @param {readonly import('./kubelet.js').Pod[]} pods */
    publish(pods) {
      service.setPods(
        pods.map((pod) => ({
          name: pod.name,
          uid: pod.uid,
          address: pod.address,
          ports: pod.ports ?? {},
          ready: pod.serving,
          terminating: pod.phase === 'terminating',
        })),
      );
      dns?.kubernetes.set({
        ...headless,
        pods: pods.map(({ address, serving, phase }) => ({ address, ready: serving && phase === 'running' })),
      });
    },
    async close() {
      await Promise.all([apiServer.close(), dns?.close()]);
    },
  };
}
