// @ts-check
/** The same class of ws: its WebSockets go to the pod with the fewest, are told when it leaves, and are rebalanced. */
import { endpointSlices } from 'evenkeel/kubernetes';
import { createWebSockets } from 'evenkeel/ws';
import { podsSetAside } from './evenkeel.js';
import { keepOpen } from './websocket.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ apiServerUrl, namespace, service }, closed) => {
  const url = `ws://${service}.${namespace}:8080`;
  const { WebSocket, balancer } = createWebSockets(url, {
    // In a cluster `rebalance: {}` is enough: a tenth of the connections a minute, to 1.2 times the mean.
    // Here pods are gone after three seconds.
    rebalance: { ratioPerMinute: 20, maxToMean: 1 },
    leaveSpreadMs: 500,
    pool: { drainTimeoutMs: 2_000 },
    // Not needed in a cluster, where it finds the API server and its credentials by itself.
    resolver: endpointSlices({
      namespace,
      service,
      port: 'websocket',
      apiServer: apiServerUrl,
      allowAddresses: ['loopback'],
    }),
  });
  await balancer.ready();
  const headers = { 'x-lane': 'websocket/evenkeel' };
  return {
    ...(await keepOpen(() => new WebSocket(`${url}/orders`, { headers }), closed)),
    setAside: () => podsSetAside(balancer),
  };
};
