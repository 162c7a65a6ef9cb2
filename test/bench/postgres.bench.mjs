/**
 * A pool over several PostgreSQL servers against one bare pg.Pool per server in turn, on real servers: what a query costs, and how
 * evenly it spreads.
 *
 *   node --expose-gc test/bench/postgres.bench.mjs [--quick]
 */
import { roundRobin } from 'evenkeel';
import { createPool } from 'evenkeel/pg';
import { FakeResolver } from 'evenkeel/testing';
import pg from 'pg';
import { application, PostgresServers, postgresHint, postgresPath } from '../support/databases/postgres/servers.mjs';
import { closedLoop } from './lib/closed-loop.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';
import { grouped, table } from './lib/table.mjs';

const QUICK = process.argv.includes('--quick');
const CONCURRENCY = 30;
/** Connections to each server at most: more than the callers need. */
const CONNECTIONS = 20;
const QUERIES = QUICK ? 1_000 : 3_000;
const SPREAD_QUERIES = QUICK ? 3_000 : 30_000;
const ROUNDS = QUICK ? 6 : MIN_ROUNDS;
const VISITS = QUICK ? 1 : 3;
const WARM_UP = QUICK ? 2 : 5;
const SQL = 'SELECT inet_server_port() AS id, name, price FROM items WHERE id = 7';

const HAND_LOOP = 'a pg.Pool per server, in turn';
const IN_TURN = 'evenkeel, roundRobin()';
const DEFAULT = 'evenkeel, as it comes';

if (postgresPath === undefined) {
  console.log(`## PostgreSQL\n\nNot measured: there is no PostgreSQL here. To measure it: ${postgresHint}\n`);
  process.exit(0);
}

/** @typedef {{ query: (sql: string) => Promise<any>, close: () => Promise<unknown> }} Client */

const servers = await PostgresServers.start(2, {
  init: [
    'CREATE TABLE items (id int PRIMARY KEY, name text, price int)',
    "INSERT INTO items SELECT n, 'item ' || n, n FROM generate_series(1, 100) AS n",
  ],
});
const standbys = servers.endpoints.slice(1);
const common = { ...application, max: CONNECTIONS };

/** @returns {Client} */
function handLoop() {
  const pools = standbys.map(({ address, port }) => new pg.Pool({ ...common, host: address, port }));
  let turn = 0;
  return {
    query: (sql) => /** @type {pg.Pool} */ (pools[turn++ % pools.length]).query(sql),
    close: () => Promise.all(pools.map((pool) => pool.end())),
  };
}

/** @param {Partial<import('evenkeel/pg').PgPoolOptions>} options @returns {Client} */
function evenkeel(options) {
  const resolver = new FakeResolver();
  resolver.update(...servers.endpoints);
  const pool = createPool({ ...common, resolver, role: 'replica', ...options });
  return { query: (sql) => pool.query(sql), close: () => pool.end() };
}

/** @type {Record<string, Client>} */
const clients = {
  [HAND_LOOP]: handLoop(),
  [IN_TURN]: evenkeel({ picker: roundRobin() }),
  [DEFAULT]: evenkeel({}),
};
try {
  const names = Object.keys(clients);
  const subject = (/** @type {string} */ name) => {
    const { query } = /** @type {Client} */ (clients[name]);
    return { name, run: () => closedLoop(() => query(SQL), { requests: QUERIES, concurrency: CONCURRENCY }) };
  };
  const results = await measure({
    baseline: subject(HAND_LOOP),
    subjects: names.filter((name) => name !== HAND_LOOP).map(subject),
    rounds: ROUNDS,
    visits: VISITS,
    warmUp: WARM_UP,
  });
  const spread = [];
  for (const name of names) spread.push(await spreadOf(name, /** @type {Client} */ (clients[name])));
  console.log(`## PostgreSQL: short reads over standbys

Two standbys and their primary as processes of their own on the same machine, at most ${CONNECTIONS} connections to each, ${CONCURRENCY} callers, one row of three
columns by primary key. ${grouped(QUERIES)} queries a visit, ${results.rounds} interleaved rounds of ${VISITS} visits after ${WARM_UP} to warm up. All are called as promises.

${figureTable(results, names)}

${ratioTable(results, [
  { name: IN_TURN, against: HAND_LOOP, figure: 'perSecond', atLeast: 1 },
  { name: IN_TURN, against: HAND_LOOP, figure: 'cpuUs', atMost: 1 },
  { name: DEFAULT, against: HAND_LOOP, figure: 'perSecond', atLeast: 1 },
  { name: DEFAULT, against: HAND_LOOP, figure: 'cpuUs', atMost: 1 },
])}

Spread over ${grouped(SPREAD_QUERIES)} queries:

${table(['client', 'max / mean', 'queries per server'], spread, [2])}
`);
} finally {
  for (const client of Object.values(clients)) await client.close();
  await servers.close();
}

/** @param {string} name @param {Client} client */
async function spreadOf(name, client) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  const counted = async () => {
    const { rows } = await client.query(SQL);
    counts.set(rows[0].id, (counts.get(rows[0].id) ?? 0) + 1);
  };
  await closedLoop(counted, { requests: SPREAD_QUERIES, concurrency: CONCURRENCY });
  const most = Math.max(...counts.values());
  return [name, (most / (SPREAD_QUERIES / counts.size)).toFixed(4), [...counts.values()].join(' ')];
}
