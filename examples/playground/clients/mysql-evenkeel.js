// @ts-check
/** evenkeel's PoolCluster: it knows the servers and picks one for every statement. */
import { endpointSlices } from 'evenkeel/kubernetes';
import { createPoolCluster } from 'evenkeel/mysql2';
import { podsSetAside } from './evenkeel.js';
import { askOver, logIn } from './mysql.js';
import { chosen } from './pickers.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ apiServerUrl, namespace, service, picker }) => {
  const cluster = createPoolCluster({
    ...logIn('evenkeel'),
    host: `${service}.${namespace}`,
    // Not needed in a cluster, where it finds the API server and its credentials by itself.
    resolver: endpointSlices({
      namespace,
      service,
      port: 'mysql',
      apiServer: apiServerUrl,
      allowAddresses: ['loopback'],
    }),
    // These statements only read: if a server dies, its statements go to another.
    idempotent: true,
    ...chosen(picker),
  });
  await cluster.balancer.ready();
  return {
    ask: askOver((sql) => cluster.query(sql)),
    setAside: () => podsSetAside(cluster.balancer),
  };
};
