// @ts-check
/**
 * A PostgreSQL primary with two standbys on this machine, and an application that reads from the standbys and writes to the primary. A
 * standby is killed, then the primary, and a standby is promoted.
 *
 *   node examples/postgres/demo.js
 */
import {
  application,
  PostgresServers,
  postgresHint,
  postgresPath,
} from '../../test/support/databases/postgres/servers.mjs';
import { openShop } from './main.js';

if (postgresPath === undefined) {
  console.log(`This needs the PostgreSQL server, which is not here.\nTo install it: ${postgresHint}`);
  process.exit(0);
}
const servers = await PostgresServers.start(2, {
  init: ['CREATE TABLE items (id int PRIMARY KEY, stock int NOT NULL)', 'INSERT INTO items VALUES (7, 100)'],
});
// A commit waits until the first standby has it: when that is promoted, nothing that was acknowledged is missing.
await servers.at(0).sql('ALTER SYSTEM SET synchronous_standby_names = \'FIRST 1 ("pg-1", "pg-2")\'');
await servers.at(0).sql('SELECT pg_reload_conf()');
const names = new Map(servers.all.map(({ name, port }) => [port, name]));

/** In a pod, `postgres.shop:5432`. */
const target = `static:${servers.endpoints.map(({ address, port }) => `${address}:${port}`).join(',')}`;
const { primary, replicas } = openShop({ ...application, target });

let failed = 0;
/** Reads the stock `count` times, ten at a time, and counts the answers of each server. @param {number} count */
async function read(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let done = 0; done < count; done += 10) {
    const reads = Array.from({ length: 10 }, () =>
      replicas.query('SELECT stock, inet_server_port() AS port FROM items WHERE id = $1', [7]),
    );
    for (const result of await Promise.allSettled(reads)) {
      if (result.status === 'rejected') failed++;
      else {
        const name = String(names.get(result.value.rows[0].port));
        answers[name] = (answers[name] ?? 0) + 1;
      }
    }
  }
  return Object.fromEntries(Object.entries(answers).sort());
}

/** Takes one from the stock, and says who did it. */
async function order() {
  const sql = 'UPDATE items SET stock = stock - 1 WHERE id = 7 RETURNING stock, inet_server_port() AS port';
  const [{ stock, port }] = (await primary.query(sql)).rows;
  return `${names.get(port)}, ${stock} left`;
}

/** Waits until reads come from these servers and no other. @param {string[]} wanted */
async function readFrom(...wanted) {
  while (Object.keys(await read(20)).join() !== wanted.join()) await new Promise((resolve) => setTimeout(resolve, 20));
}

await readFrom('pg-1', 'pg-2');
console.log('reads:                   ', await read(1_000));
console.log('an order:                ', await order());

const reading = read(1_000);
await servers.at(1).kill();
console.log('a standby was killed:    ', await reading);
await servers.at(1).start();
await readFrom('pg-1', 'pg-2');

await servers.at(0).kill();
// Nobody knows what became of a write whose connection died: the application decides. Later ones wait for a primary.
console.log('the primary was killed:  ', await order().catch((error) => error.message));
const waiting = order();
await servers.at(1).sql("ALTER SYSTEM SET synchronous_standby_names = ''");
await servers.at(1).promote();
console.log('a standby was promoted:  ', await waiting);
await servers.at(2).follow(servers.at(1));
await servers.rejoin(servers.at(0), servers.at(1));
await readFrom('pg-0', 'pg-2');
console.log('it is back, as a standby:', await read(1_000));
console.log('reads that failed:       ', failed);

await Promise.all([primary.end(), replicas.end()]);
await servers.close();
