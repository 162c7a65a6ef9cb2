/**
 * What a name server that never answers does to the rest of the process: `fs.readFile`, which shares libuv's four threads
 * with `dns.lookup`, read in a loop with and without headless DNS hanging on 20 names.
 *
 *   node --expose-gc test/bench/dns-hang.bench.mjs [--quick]
 */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { dns, systemClock, systemRng } from 'evenkeel';
import { closedLoop } from './lib/closed-loop.mjs';
import { MIN_ROUNDS, measure } from './lib/rounds.mjs';
import { table, withInterval } from './lib/table.mjs';

const ROUNDS = process.argv.includes('--quick') ? 8 : MIN_ROUNDS;
const NAMES = 20;
const READS = 4_000;
const FILE = fileURLToPath(new URL('../../package.json', import.meta.url));

const program = fileURLToPath(new URL('../servers/dns-program.js', import.meta.url));
const server = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
const address = String((await lines.next()).value).replace('listening ', '');
const command = async (/** @type {object} */ what) => {
  server.stdin.write(`${JSON.stringify(what)}\n`);
  return JSON.parse(String((await lines.next()).value));
};
await command({ fault: { kind: 'silent' } });

const readAll = () => closedLoop(() => readFile(FILE), { requests: READS, concurrency: 4 });

const name = (/** @type {number} */ index) => `hanging-${index}.shop`;
const listener = { update() {}, fail() {}, fresh() {} };
const context = { clock: systemClock, rng: systemRng, observer: {} };

async function readWhileDnsHangs() {
  const asked = Number((await command({ count: `${name(0)}.svc.cluster.local` })).count);
  const watches = Array.from({ length: NAMES }, (_, index) =>
    dns({ host: name(index), port: 80, servers: [address], clusterDomain: 'cluster.local' }).watch(listener, context),
  );
  for (;;) {
    const { count } = await command({ count: `${name(0)}.svc.cluster.local` });
    if (count > asked) break;
  }
  try {
    return await readAll();
  } finally {
    for (const watch of watches) watch.close();
  }
}

const HANGING = `${NAMES} names on a silent name server`;
const results = await measure({
  baseline: { name: 'no DNS', run: readAll },
  subjects: [{ name: HANGING, run: readWhileDnsHangs }],
  rounds: ROUNDS,
  warmUp: 3,
});
server.stdin.end();

console.log(`## File reads while DNS hangs

${READS} reads of a small file by 4 readers, ${results.rounds} rounds. Nothing of headless DNS runs on the thread pool.

${table(
  ['reads', 'reads/s', 'p99 ms'],
  ['no DNS', HANGING].map((subject) => [
    subject,
    Math.round(results.median(subject, 'perSecond')).toString(),
    results.median(subject, 'p99').toFixed(2),
  ]),
)}

${table(
  ['ratio to "no DNS"', 'wanted', 'measured', 'verdict'],
  [
    [
      'reads/s',
      '≥ 0.97',
      withInterval(results.ratio(HANGING, 'perSecond')),
      results.verdict(HANGING, 'perSecond', { atLeast: 0.97 }),
    ],
    ['A/A reads/s', '1 ± 0.03', withInterval(results.aa('perSecond')), ''],
  ],
)}
`);
