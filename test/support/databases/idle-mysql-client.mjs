/**
 * Queries the servers at the given ports through the built package, prints the answers and does nothing more. It does not end its
 * cluster: the process has to end by itself. First argument: user, password and database as JSON.
 */
import { staticEndpoints } from 'evenkeel';
import { createPoolCluster } from 'evenkeel/mysql2';

const [options, how, ...ports] = process.argv.slice(2);
const cluster = createPoolCluster({
  resolver: staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port: Number(port) }))),
  ...JSON.parse(options),
  ...(how === 'tls' && { host: 'mysql-read.shop', ssl: { rejectUnauthorized: false, verifyIdentity: false } }),
});
await cluster.ready();
if (how !== 'none') {
  for (const _ of ports) console.log((await cluster.query('SELECT 1 AS one'))[0][0].one);
  await Promise.all(ports.map(() => cluster.execute('SELECT SLEEP(?)', [0.01])));
  const connection = await cluster.getConnection();
  await connection.beginTransaction();
  await connection.commit();
  connection.release();
}
console.log('done');
