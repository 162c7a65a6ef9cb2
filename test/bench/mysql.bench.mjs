/**
 * Clients of several MySQL servers side by side on real MariaDB servers: what a query costs, how evenly they spread, and
 * what they lose when servers die, freeze, come and go.
 *
 *   node --expose-gc test/bench/mysql.bench.mjs [--quick]
 */
import { MariadbServers, mariadbHint, mariadbPath } from '../support/databases/mariadb/servers.mjs';
import { closedLoop } from './lib/closed-loop.mjs';
import { CONNECTIONS, evenkeel, evenkeelInTurn, handLoop, onePool, poolCluster } from './lib/mysql-clients.mjs';
import { addedAndRemoved, frozen, killed } from './lib/mysql-scenes.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';
import { grouped, table } from './lib/table.mjs';

const QUICK = process.argv.includes('--quick');
const SERVERS = 3;
const CONCURRENCY = 30;
const QUERIES = QUICK ? 1_000 : 3_000;
const SPREAD_QUERIES = QUICK ? 3_000 : 30_000;
const ROUNDS = QUICK ? 6 : MIN_ROUNDS;
const VISITS = QUICK ? 1 : 3;
const WARM_UP = QUICK ? 2 : 5;
const SQL = 'SELECT @@server_id AS id, name, price FROM items WHERE id = 7';

const HAND_LOOP = 'a mysql2 pool per server, in turn';
const IN_TURN = 'evenkeel, roundRobin()';
const DEFAULT = 'evenkeel, as it comes';
const CLUSTER = "mysql2's PoolCluster";
const ONE_POOL = 'one pool, a server at random per connection';

if (mariadbPath === undefined) {
  console.log(`## MySQL\n\nNot measured: there is no MariaDB here. To measure it: ${mariadbHint}\n`);
  process.exit(0);
}

const init = [
  'CREATE TABLE IF NOT EXISTS items (id INT PRIMARY KEY, name VARCHAR(50), price INT)',
  "INSERT IGNORE INTO items SELECT seq, CONCAT('item ', seq), seq FROM seq_1_to_100",
];
const servers = await MariadbServers.start(SERVERS, { init });
try {
  await compare();
} finally {
  await servers.close();
}

async function compare() {
  /** @type {Record<string, import('./lib/mysql-clients.mjs').MysqlClient>} */
  const clients = {
    [HAND_LOOP]: handLoop(servers.endpoints),
    [IN_TURN]: evenkeelInTurn(servers.endpoints),
    [DEFAULT]: evenkeel(servers.endpoints),
    [CLUSTER]: poolCluster(servers.endpoints),
    [ONE_POOL]: onePool(servers.endpoints),
  };
  const names = Object.keys(clients);
  const subject = (/** @type {string} */ name) => {
    const { query } = /** @type {import('./lib/mysql-clients.mjs').MysqlClient} */ (clients[name]);
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
  for (const name of names) spread.push(await spreadOf(name, clients[name]));
  for (const client of Object.values(clients)) await client.close();

  console.log(`## MySQL: short queries

${SERVERS} MariaDB servers as processes of their own on the same machine, at most ${CONNECTIONS} connections to each, ${CONCURRENCY} callers, one row of three
columns by primary key. ${grouped(QUERIES)} queries a visit, ${results.rounds} interleaved rounds of ${VISITS} visits after ${WARM_UP} to warm up. All are called as promises.

${figureTable(results, names)}

${ratioTable(results, [
  { name: IN_TURN, against: HAND_LOOP, figure: 'perSecond', atLeast: 0.97 },
  { name: IN_TURN, against: HAND_LOOP, figure: 'cpuUs', atMost: 1.05 },
  { name: DEFAULT, against: HAND_LOOP, figure: 'perSecond', atLeast: 0.97 },
  { name: DEFAULT, against: HAND_LOOP, figure: 'cpuUs', atMost: 1.05 },
])}

Spread over ${grouped(SPREAD_QUERIES)} queries:

${table(['client', 'max / mean', 'queries per server'], spread, [2])}

### When servers die, freeze, come and go

${await scenes()}
`);
}

/** @param {string} name @param {import('./lib/mysql-clients.mjs').MysqlClient | undefined} client */
async function spreadOf(name, client) {
  const perServer = new Array(SERVERS).fill(0);
  const counted = async () => {
    const [[{ id }]] = await /** @type {import('./lib/mysql-clients.mjs').MysqlClient} */ (client).query(SQL);
    perServer[id - 1]++;
  };
  await closedLoop(counted, { requests: SPREAD_QUERIES, concurrency: CONCURRENCY });
  return [name, (Math.max(...perServer) / (SPREAD_QUERIES / SERVERS)).toFixed(4), perServer.map(String).join(' ')];
}

async function scenes() {
  /** @type {Record<string, (addresses: readonly import('./lib/mysql-clients.mjs').Address[]) => import('./lib/mysql-clients.mjs').MysqlClient>} */
  const makers = {
    [DEFAULT]: evenkeel,
    [CLUSTER]: poolCluster,
    [`${CLUSTER}, restoreNodeTimeout: 1000`]: (addresses) => poolCluster(addresses, { restoreNodeTimeout: 1_000 }),
    [ONE_POOL]: onePool,
  };
  const rows = [];
  for (const [name, make] of Object.entries(makers)) {
    const kill = await killed(servers, make(servers.endpoints));
    const freeze = await frozen(servers, make(servers.endpoints));
    const more = await addedAndRemoved(servers, make(servers.endpoints));
    rows.push([
      name,
      String(kill.failed),
      String(kill.thrown),
      percent(kill.back),
      String(freeze.failed),
      grouped(freeze.longest),
      percent(more.share),
      String(more.failed),
    ]);
  }
  return `30 callers query without a pause; one that has no answer after 2 s gives up. *Killed*: SIGKILL of one of three servers, started
again after 2 s; *thrown* are errors mysql2 throws where no caller can catch them, each of which ends a process; *share after*
is that of the server from 2 s after its return (fair: 33 %). *Frozen*: SIGSTOP for 3 s. *Added, removed*: a fourth server; its
share from 2 s on (fair: 25 %), and what fails until it is gone again. PoolCluster alone is told of no change.

${table(['client', 'killed: failed', 'thrown', 'share after', 'frozen: failed', 'longest wait ms', 'added: share', 'added, removed: failed'], rows)}`;
}

/** @param {number} share */
function percent(share) {
  return `${Math.round(share * 100)} %`;
}
