// @ts-check
/**
 * The API server, and the controller that writes a Service's EndpointSlices from its pods. The pods share 127.0.0.1 and
 * differ by port, as pods behind a named `targetPort` may: one slice per port number.
 */
import { createApiServer } from 'evenkeel/testing';

const NAMESPACE = 'shop';
const SERVICE = 'orders';

export async function createControlPlane() {
  const apiServer = await createApiServer();
  const service = apiServer.service(NAMESPACE, SERVICE, { ports: [{ name: 'http', port: 80, targetPort: 'http' }] });
  return {
    url: apiServer.url,
    namespace: NAMESPACE,
    service: SERVICE,
    /** Writes what changed since the last call. @param {readonly import('./kubelet.js').Pod[]} pods */
    publish(pods) {
      service.setPods(
        pods.map(({ name, uid, port, serving, phase }) => ({
          name,
          uid,
          address: '127.0.0.1',
          ports: { http: port },
          ready: serving,
          terminating: phase === 'terminating',
        })),
      );
    },
    close: () => apiServer.close(),
  };
}
