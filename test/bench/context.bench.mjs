/**
 * What `createBackend({ context: true })` costs a request, on the Node it runs on: CPU time of a server of node:http whose handler awaits
 * 20 times, with and without a context. Each measurement is a process of its own, in turn: once a process has an AsyncLocalStorage,
 * all its promises pay for it. The one without is in twice (A/A).
 *
 *   node test/bench/context.bench.mjs [--quick]
 */
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { createBackend } from 'evenkeel/server';
import { seededRng } from 'evenkeel/testing';
import { Connection } from './lib/memory-connection.mjs';
import { bootstrapMedian, median, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const REQUESTS = 30_000;
const WARM_UP = 10_000;
const kinds = ['without', 'without, again', 'with a context'];
const awaitsOf = [0, 20, 100];

/** @param {boolean} context @param {number} awaits */
async function measure(context, awaits) {
  const pod = createBackend({ reports: false, context });
  const connection = new Connection();
  const head = Buffer.from('GET / HTTP/1.1\r\nHost: orders.shop\r\n\r\n');
  const server = createServer(
    { keepAliveTimeout: 0 },
    pod.http(async (_request, response) => {
      for (let count = 0; count < awaits; count++) await undefined;
      response.end('hello');
    }),
  );
  server.emit('connection', connection);
  const run = (/** @type {number} */ requests) =>
    new Promise((resolve) => {
      let left = requests;
      connection.answered = () => {
        if (--left > 0) setImmediate(() => connection.push(head));
        else setImmediate(() => resolve(undefined));
      };
      connection.push(head);
    });
  await run(WARM_UP);
  const begun = process.cpuUsage();
  await run(REQUESTS);
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / REQUESTS;
}

if (process.argv[2] === 'child') {
  console.log(await measure(process.argv[3] === 'true', Number(process.argv[4])));
  process.exit(0);
}

const rounds = process.argv.includes('--quick') ? 8 : 30;
const rng = seededRng(1);
const random = () => rng.next();
const program = fileURLToPath(import.meta.url);
const rows = [];
for (const awaits of awaitsOf) {
  /** @type {Record<string, number[]>} */
  const times = Object.fromEntries(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < rounds; round++) {
    for (const kind of shuffled(kinds, random)) {
      const { stdout } = spawnSync(
        process.execPath,
        [program, 'child', String(kind === 'with a context'), String(awaits)],
        { encoding: 'utf8' },
      );
      times[kind]?.push(Number(stdout));
    }
  }
  const plain = times.without ?? [];
  const added = kinds.slice(1).map((kind) =>
    withInterval(
      bootstrapMedian(
        plain.map((time, round) => Number(times[kind]?.[round]) - time),
        random,
      ),
    ),
  );
  rows.push([String(awaits), median(plain).toFixed(1), ...added]);
}
console.log(`## Contexts

CPU time that \`createBackend({ context: true })\` adds to a request on Node ${process.versions.node}, in µs: differences to the same pod without it, over a connection in memory. Each measurement is a process of its own;
median of ${rounds} rounds with its bootstrap 95 % interval.

${table(['awaits in the handler', 'without', 'without, again', 'with a context'], rows, [2, 3, 4])}
`);
