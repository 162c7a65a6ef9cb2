// @ts-check
/** The ordinary client: one pool of mysql2 to the Service's name. It opens connections when it needs them, and keeps them. */
import { createPool } from 'mysql2/promise';
import { askOver, logIn } from './mysql.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ servicePorts }) => {
  const pool = createPool({ ...logIn('ordinary'), host: '127.0.0.1', port: servicePorts.mysql ?? 0 });
  return { ask: askOver((sql) => pool.query(sql)) };
};
