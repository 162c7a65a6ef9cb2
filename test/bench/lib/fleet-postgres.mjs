/** How a client of the fleet sends its statements to PostgreSQL. */
import { staticEndpoints } from 'evenkeel';
import { createPool } from 'evenkeel/pg';
import pg from 'pg';
import { renewable } from './renewable.mjs';

/** To each server, at most: more than ever run at once. */
const CONNECTIONS = 50;
const settings = { user: 'app', database: 'app', max: CONNECTIONS };

const statement = (/** @type {number} */ workMs) => `SELECT ${workMs} AS work_ms`;

/** @param {number | undefined} port */
function poolOf(port) {
  const pool = new pg.Pool({ ...settings, host: '127.0.0.1', port });
  // The statement that runs on the connection fails anyway.
  pool.on('error', () => {});
  return pool;
}

/** @type {import('./fleet-contenders.mjs').Kinds} */
export const kinds = {
  /** One pool, one address: what is behind it draws a server for each connection. */
  stock: ([port]) =>
    renewable(() => {
      const pool = poolOf(port);
      return { call: (workMs) => pool.query(statement(workMs)), close: () => pool.end() };
    }),
  /** What people write by hand: a pool per server, in turn. */
  poolPerServer: (ports) => {
    const pools = ports.map(poolOf);
    let turn = 0;
    return {
      call: (workMs) => /** @type {pg.Pool} */ (pools[turn++ % pools.length]).query(statement(workMs)),
      close: () => Promise.all(pools.map((pool) => pool.end())),
    };
  },
  default: (ports) => {
    const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));
    const pool = createPool({ ...settings, resolver });
    return { call: (workMs) => pool.query(statement(workMs)), close: () => pool.end() };
  },
};
