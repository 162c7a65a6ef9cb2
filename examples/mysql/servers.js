// @ts-check
/** MariaDB servers on this machine, and an API server for tests in place of Kubernetes. */
import { createApiServer } from '../../test/servers/index.js';
import {
  application,
  MariadbServers,
  mariadbHint,
  mariadbPath,
} from '../../test/support/databases/mariadb/servers.mjs';

export { application };

/** @typedef {import('../../test/support/databases/mariadb/servers.mjs').MariadbServer} MariadbServer */

/** Every server starts with the same tables; replication is not part of this example. */
const tables = [
  'CREATE TABLE IF NOT EXISTS items (id INT PRIMARY KEY, price INT NOT NULL, stock INT NOT NULL)',
  'INSERT IGNORE INTO items SELECT seq, seq * 10, 100 FROM seq_1_to_100',
  'CREATE TABLE IF NOT EXISTS orders (id INT AUTO_INCREMENT PRIMARY KEY, item INT NOT NULL, amount INT NOT NULL)',
];

/** What is missing, and the command that installs it; undefined if nothing is. */
export const missing =
  mariadbPath === undefined
    ? `This needs MariaDB's server program, which is not here.\nTo install it: ${mariadbHint}`
    : undefined;

/** Starts one primary and `replicas` replicas, each Service with its pods. @param {number} replicas */
export async function startServers(replicas) {
  const servers = await MariadbServers.start(1 + replicas, { init: tables, names: ['mysql-0'] });
  const api = await createApiServer();
  const ports = [{ name: 'mysql', port: 3306, targetPort: 'mysql' }];
  const services = {
    primary: api.service('shop', 'mysql', { ports }),
    replica: api.service('shop', 'mysql-read', { ports }),
  };

  /** @param {'primary' | 'replica'} role @param {MariadbServer} server */
  const appear = (role, { name, address, port }) => services[role].putPod({ name, address, ports: { mysql: port } });
  for (const server of servers.all) appear(server === servers.at(0) ? 'primary' : 'replica', server);

  return {
    apiUrl: api.url,
    /** @param {number} index 0 is the primary */
    at: (index) => servers.at(index),
    /** Adds a replica. */
    async scaleUp() {
      const server = await servers.add();
      appear('replica', server);
      return server;
    },
    /** What Kubernetes does to a pod it removes: its slice says so, then it gets SIGTERM. @param {MariadbServer} server */
    async scaleDown(server) {
      services.replica.updatePod(server.name, { ready: false, terminating: true });
      await new Promise((resolve) => setTimeout(resolve, 500)); // a preStop hook that sleeps
      await servers.remove(server);
      services.replica.removePod(server.name);
    },
    async close() {
      await servers.close();
      await api.close();
    },
  };
}
