/**
 * What it costs to watch: the same clients in processes of their own, in each of which one thing is switched on.
 *
 *   node --expose-gc test/bench/metrics.bench.mjs [--quick] [--alone]     --alone: without servers, what watching costs by itself
 */
import { MariadbServers, mariadbPath } from '../support/databases/mariadb/servers.mjs';
import { startChild } from './lib/children.mjs';
import { ALONE, OFF, PICKS, rows } from './lib/metrics-rows.mjs';
import { Pods } from './lib/pods.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';
import { grouped, table, withInterval } from './lib/table.mjs';

const QUICK = process.argv.includes('--quick');
const ROUNDS = QUICK ? 6 : MIN_ROUNDS;
const SERVERS = 3;
/** Clients of each row, in turn: processes differ by themselves. */
const PROCESSES = 2;
/** Calls per visit and callers, by protocol. */
const sizes = {
  [ALONE]: { requests: 50, concurrency: 1 },
  undici: { requests: 1_000, concurrency: 24 },
  gRPC: { requests: 500, concurrency: 24 },
  MySQL: { requests: 500, concurrency: 24 },
};

const pods = await Pods.start(SERVERS);
const grpcPods = await Promise.all(
  Array.from({ length: SERVERS }, (_, index) => startChild('grpc-pod.mjs', [String(index)])),
);
const databases =
  mariadbPath === undefined || process.argv.includes('--alone')
    ? undefined
    : await MariadbServers.start(SERVERS, {
        // The clients' processes have more connections together than a server takes by default.
        args: ['--max-connections=1000'],
        init: [
          'CREATE TABLE IF NOT EXISTS items (id INT PRIMARY KEY, name VARCHAR(50), price INT)',
          "INSERT IGNORE INTO items SELECT seq, CONCAT('item ', seq), seq FROM seq_1_to_100",
        ],
      });
const where = JSON.stringify({
  undici: pods.ready.map(({ address, port }) => ({ address, port })),
  gRPC: grpcPods.map(({ port }) => ({ address: '127.0.0.1', port })),
  MySQL: databases?.endpoints ?? [],
});
const protocols = /** @type {(keyof typeof sizes)[]} */ (Object.keys(sizes)).filter((protocol) =>
  process.argv.includes('--alone') ? protocol === ALONE : protocol !== 'MySQL' || databases !== undefined,
);
const names = Object.keys(rows);
const clients = new Map();
for (const name of names) {
  clients.set(
    name,
    // The baseline is visited twice as often: with as many processes more, each has made as many calls as the others.
    await Promise.all(
      Array.from({ length: name === OFF ? 2 * PROCESSES : PROCESSES }, () =>
        startChild('metrics-client.mjs', [name, where]),
      ),
    ),
  );
}
/** @type {Map<string, number>} */
const visits = new Map();

/** @param {string} name @param {keyof typeof sizes} protocol @returns {Promise<import('./lib/rounds.mjs').Sample>} */
function visit(name, protocol) {
  const turn = visits.get(name) ?? 0;
  visits.set(name, turn + 1);
  const children = /** @type {import('./lib/children.mjs').Child[]} */ (clients.get(name));
  const { process: child } = /** @type {import('./lib/children.mjs').Child} */ (children[turn % children.length]);
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error(`the client with ${name} ended`));
    child.once('exit', ended);
    child.once('message', (sample) => {
      child.off('exit', ended);
      resolve(/** @type {import('./lib/rounds.mjs').Sample} */ (sample));
    });
    child.send({ protocol, size: sizes[protocol] });
  });
}

try {
  const columns = [];
  for (const protocol of protocols) {
    const subject = (/** @type {string} */ name) => ({ name, run: () => visit(name, protocol) });
    const results = await measure({
      baseline: subject(OFF),
      subjects: names.filter((name) => name !== OFF).map(subject),
      rounds: ROUNDS,
      visits: PROCESSES,
      warmUp: QUICK ? 2 : 8,
      progress: (round) => process.stderr.write(`metrics: ${protocol}, round ${round} of ${ROUNDS}\n`),
    });
    columns.push({ protocol, results });
  }
  const cells = (/** @type {string} */ name) =>
    columns.map(({ results }) =>
      name === OFF
        ? `${results.median(OFF, 'cpuUs').toPrecision(3)} µs`
        : withInterval(results.ratio(name, 'cpuUs'), 3),
    );
  console.log(`## What watching costs

CPU of the client's process per call; in each process one thing is switched on, and it is scraped with every tenth visit. The first row is in microseconds, the others are ratios to it. ${SERVERS} servers of each kind,
${ROUNDS} interleaved rounds of ${PROCESSES} visits of ${protocols.map((protocol) => `${grouped(sizes[protocol].requests * (protocol === ALONE ? PICKS : 1))} calls (${protocol})`).join(', ')}; ${sizes.undici.concurrency} callers. A/A is the first row against itself, in other processes.

${table(
  ['switched on', ...protocols],
  [
    ...names.map((name) => [name, ...cells(name)]),
    ['A/A', ...columns.map(({ results }) => withInterval(results.aa('cpuUs'), 3))],
  ],
)}
`);
} finally {
  for (const client of [...clients.values()].flat()) client.stop();
  for (const pod of grpcPods) pod.stop();
  pods.stop();
  await databases?.close();
}
