import { hash, roundRobin, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import type { PoolConnection, ResultSetHeader, RowDataPacket } from 'mysql2';
import type { PoolConnection as PromisePoolConnection } from 'mysql2/promise';

interface Order extends RowDataPacket {
  readonly id: number;
}

const options: PoolClusterOptions = { user: 'app', password: '', database: 'shop', charset: 'utf8mb4', picker: hash() };
const replicas: PoolCluster = createPoolCluster({ ...options, target: 'mysql-read.shop:3306', idempotent: true });

const [orders, fields] = await replicas.query<Order[]>('SELECT * FROM orders WHERE id = ?', [42]);
const id: number | undefined = orders[0]?.id;
const [result] = await replicas.execute<ResultSetHeader>({
  sql: 'DELETE FROM orders',
  idempotent: false,
  key: 'a',
  timeout: 5,
});
const changed: number = result.affectedRows;
replicas.query<Order[]>('SELECT * FROM orders', (error, rows) => void [error?.code, rows[0]?.id]);
replicas.execute<Order[]>('SELECT * FROM orders WHERE id = ?', [42], (_error, rows, columns) => void [rows, columns]);

const connection: PromisePoolConnection = await replicas.getConnection({ key: 'a' });
await connection.beginTransaction();
connection.release();
replicas.getConnection((_error, held: PoolConnection) => held.release());

const cluster = createPoolCluster({
  ...options,
  resolver: staticEndpoints([{ address: '10.0.0.1', port: 3306 }]),
  services: {
    primary: { target: 'mysql.shop:3306', role: 'primary' },
    replica: { target: 'mysql-read.shop:3306', picker: roundRobin(), maxLagMs: 5_000 },
    reports: 'mysql-reports.shop:3306',
  },
});
const [again] = await cluster.of('re*', 'ORDER').query<Order[]>('SELECT * FROM orders');
const state: string | undefined = cluster.balancers.get('primary')?.snapshot().state;
await cluster.end();
cluster.end((error) => void error);
void [id, fields, changed, again, state, replicas.balancer.ready(), replicas[Symbol.asyncDispose]()];

// @ts-expect-error: where the sockets go is found out
createPoolCluster({ ...options, socketPath: '/run/mysqld/mysqld.sock' });
// @ts-expect-error: no such selector
cluster.of('*', 'BEST');
