// @ts-check
/** mysql2's own PoolCluster in the usual way: the addresses behind the headless Service, looked up once, a node for each. */
import { Resolver } from 'node:dns/promises';
import { createPoolCluster } from 'mysql2/promise';
import { askOver, logIn } from './mysql.js';

// When it removes a node that refused a connection, mysql2 (3.24) throws where no caller can catch it, which would end an ordinary
// process. This one continues, and reports it.
let thrown = 0;
process.on('uncaughtException', (error) => {
  thrown += 1;
  if (thrown > 1) return;
  process.send?.({ type: 'note', text: `mysql2's PoolCluster threw what no caller can catch: ${error.message}` });
});

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ headless }) => {
  if (headless === undefined) throw new Error('there is no headless Service here');
  const resolver = new Resolver();
  resolver.setServers([headless.dnsServer]);
  const cluster = createPoolCluster();
  for (const address of await resolver.resolve4(headless.host)) {
    cluster.add(address, { ...logIn('pool-cluster'), host: address, port: headless.ports.mysql ?? 0 });
  }
  const nodes = cluster.of('*'); // in turn
  return { ask: askOver((sql) => nodes.query(sql)) };
};
