// A PoolCluster of mysql2's own (3.12 or later), kept in step with a Service. For programs that cannot give it up.
import { connect, Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { resolverFrom, systemClock, systemRng } from 'evenkeel';
import mysql from 'mysql2/promise';

/** @typedef {{ sockets: Set<Socket>, isWanted: boolean, isLeaving: boolean }} Node */

const options = { user: 'shop', password: process.env.MYSQL_PASSWORD ?? '', database: 'shop', connectionLimit: 10 };
// Without restoreNodeTimeout, mysql2 forgets a node that failed five times.
const cluster = mysql.createPoolCluster({ restoreNodeTimeout: 1_000 });
/** @type {Map<string, Node>} */
const nodes = new Map();
/** @type {readonly import('evenkeel').Endpoint[]} */
let wanted = [];

/** @param {import('evenkeel').Endpoint} endpoint */
function add({ key, address, port }) {
  /** @type {Node} */
  const node = { sockets: new Set(), isWanted: true, isLeaving: false };
  const stream = () => {
    const socket = node.isLeaving ? new Socket().destroy(new Error(`${key} is leaving`)) : connect(port, address);
    node.sockets.add(socket);
    return socket.once('close', () => node.sockets.delete(socket));
  };
  nodes.set(key, node);
  cluster.add(key, { ...options, stream });
}

/**
 * Takes all connections of a node, which mysql2 hands out in turn, and then opens no more: callers get another node.
 * @param {string} key @param {Node} node
 */
async function empty(key, node) {
  const all = Array.from({ length: options.connectionLimit }, () => cluster.getConnection(key));
  await Promise.race([Promise.allSettled(all), pause(500)]);
  node.isLeaving = true;
  for (const taking of all) taking.then((connection) => connection.destroy()).catch(() => {});
  await pause(100);
}

/** @param {string} key @param {Node} node */
async function remove(key, node) {
  node.isWanted = false;
  const cut = setTimeout(() => {
    for (const socket of node.sockets) socket.destroy();
  }, 30_000);
  while (node.sockets.size > 0) await empty(key, node);
  clearTimeout(cut);
  // Only now: if a connection of a removed node breaks while it is in use, mysql2 ends the process.
  /** @type {{ remove(key: string): void }} */ (/** @type {unknown} */ (cluster)).remove(key); // mysql2's types have no such method
  nodes.delete(key);
  update(wanted); // it may be back
}

/** @param {readonly import('evenkeel').Endpoint[]} endpoints */
function update(endpoints) {
  wanted = endpoints.filter(({ conditions }) => conditions.ready);
  for (const endpoint of wanted) if (!nodes.has(endpoint.key)) add(endpoint);
  for (const [key, node] of nodes) {
    if (node.isWanted && !wanted.some((endpoint) => endpoint.key === key)) void remove(key, node);
  }
}

const listener = { update, fail: console.error, fresh() {} };
const context = { clock: systemClock, rng: systemRng, observer: {} };
const resolution = resolverFrom('mysql-read.shop:3306').watch(listener, context);
while (nodes.size === 0) await pause(10);
const [rows] = await cluster.of('*').query('SELECT price FROM items WHERE id = 7');
console.log(rows);
resolution.close();
await cluster.end();
