// @ts-check
/** What runs in the clusters. */
import { mariadbPath } from '../../test/support/databases/mariadb/program.mjs';

/**
 * @typedef {object} Workload
 * @property {string} name
 * @property {readonly { name: string, port: number }[]} ports those of its Service, by protocol; `http` is where the kubelet probes, too
 * @property {boolean} failsFast whether its pods can be told to fail every request at once
 * @property {boolean} isMariadb whether its pods are MariaDB servers
 * @property {string} [engine] what its pods are, when that depends on the machine
 */

/** One Deployment that serves these protocols from the same pods. @type {Workload} */
export const orders = {
  name: 'orders',
  ports: [
    { name: 'http', port: 80 },
    { name: 'grpc', port: 50_051 },
    { name: 'websocket', port: 8_080 },
  ],
  failsFast: true,
  isMariadb: false,
};

const isMariadb = mariadbPath !== undefined;

/** Replicas of a database: real servers where they are installed, otherwise the server that mysql2 brings. @type {Workload} */
export const database = {
  name: 'orders-db',
  ports: [
    { name: 'http', port: 8_008 },
    { name: 'mysql', port: 3_306 },
  ],
  failsFast: !isMariadb,
  isMariadb,
  engine: isMariadb ? 'real MariaDB servers' : 'stand-ins that speak the MySQL protocol; no MariaDB is installed here',
};
