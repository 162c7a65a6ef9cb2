/**
 * Two builds of evenkeel against each other on the same servers: a pick, a GET and a POST over undici, a request of node:http, a gRPC
 * call, a statement of mysql2 and of pg. Every sample is a process of its own; in each round each build has its turn in a random order,
 * and the first is in twice (A/A), so that it is seen how far the machine strays by itself.
 *
 *   node test/bench/compare-builds.mjs <dist before> [<dist after>] [--rounds=60] [--only=pick,get,post,node:http,grpc,mysql2,pg]
 *
 * A build before is made in another folder:
 *   git archive <commit> | tar -x -C <folder>; ln -s $PWD/node_modules <folder>/; (cd <folder> && node scripts/build.mjs)
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { seededRng } from 'evenkeel/testing';
import { MariadbServers, mariadbPath } from '../support/databases/mariadb/servers.mjs';
import { PostgresServers, postgresPath } from '../support/databases/postgres/servers.mjs';
import { startChild } from './lib/children.mjs';
import { describeMachine } from './lib/machine.mjs';
import { bootstrapMedian, median, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const args = process.argv.slice(2);
const [before, after = fileURLToPath(new URL('../../dist', import.meta.url))] = args.filter(
  (arg) => !arg.startsWith('--'),
);
const option = (/** @type {string} */ name) => args.find((arg) => arg.startsWith(`--${name}=`))?.split('=')[1];
const ROUNDS = Number(option('rounds') ?? 60);
const PODS = 3;

/** How many calls a sample measures, by scene: about a second each. */
const calls = { pick: 1_000_000, get: 8_000, post: 8_000, 'node:http': 6_000, grpc: 8_000, mysql2: 8_000, pg: 8_000 };
const wanted = option('only')?.split(',') ?? Object.keys(calls);

for (const dist of [before, after]) {
  if (dist !== undefined && existsSync(join(dist, 'index.js'))) continue;
  console.error(`${dist ?? 'No folder'} has no build. node test/bench/compare-builds.mjs <dist before> [<dist after>]`);
  process.exit(2);
}
/** @type {Readonly<Record<string, string>>} */
const builds = { before: resolve(String(before)), again: resolve(String(before)), after: resolve(after) };

/** What has to be stopped in the end. @type {(() => unknown)[]} */
const ends = [];
const items = (/** @type {string} */ rows) => [
  'CREATE TABLE IF NOT EXISTS items (id INT PRIMARY KEY, name VARCHAR(50), price INT)',
  `INSERT INTO items ${rows}`,
];

/** Starts the servers of one scene. Undefined if there is no program for them here. @param {string} scene */
async function serversOf(scene) {
  if (scene === 'pick') return [];
  if (scene === 'mysql2') {
    if (mariadbPath === undefined) return undefined;
    const rows = "SELECT seq, CONCAT('item ', seq), seq FROM seq_1_to_100 ON DUPLICATE KEY UPDATE price = price";
    const servers = await MariadbServers.start(2, { init: items(rows) });
    ends.push(() => servers.close());
    return servers.endpoints;
  }
  if (scene === 'pg') {
    if (postgresPath === undefined) return undefined;
    const servers = await PostgresServers.start(3, {
      init: items("SELECT n, 'item ' || n, n FROM generate_series(1, 100) AS n"),
    });
    ends.push(() => servers.close());
    return servers.endpoints;
  }
  const program = scene === 'grpc' ? 'grpc-pod.mjs' : 'pod.mjs';
  const pods = await Promise.all(
    Array.from({ length: PODS }, (_, index) =>
      startChild(program, scene === 'grpc' ? [String(index)] : ['127.0.0.1', '0']),
    ),
  );
  ends.push(() => pods.map((pod) => pod.stop()));
  return pods.map(({ port }) => ({ address: '127.0.0.1', port }));
}

const client = fileURLToPath(new URL('lib/build-client.mjs', import.meta.url));
const run = promisify(execFile);
/** @param {string} build @param {string} scene @param {unknown} servers @returns {Promise<{ wallUs: number, cpuUs: number }>} */
async function sample(build, scene, servers) {
  const count = calls[/** @type {keyof typeof calls} */ (scene)];
  const { stdout } = await run(process.execPath, [
    client,
    String(builds[build]),
    scene,
    JSON.stringify(servers),
    String(count),
  ]);
  return JSON.parse(stdout);
}

const rng = seededRng(1);
const random = () => rng.next();
/** @type {string[]} */
const missing = [];
/** @type {Map<string, { servers: unknown, samples: Record<string, { wallUs: number, cpuUs: number }[]> }>} */
const scenes = new Map();
try {
  for (const scene of wanted) {
    const servers = await serversOf(scene);
    if (servers === undefined) missing.push(scene);
    else scenes.set(scene, { servers, samples: { before: [], again: [], after: [] } });
  }
  for (let round = 1; round <= ROUNDS; round++) {
    process.stderr.write(`\rround ${round} of ${ROUNDS}`);
    for (const [scene, { servers, samples }] of shuffled([...scenes], random)) {
      for (const build of shuffled(Object.keys(builds), random)) {
        samples[build]?.push(await sample(build, scene, servers));
      }
    }
  }
} finally {
  for (const end of ends) await end();
}
process.stderr.write('\n');

/** @param {Record<string, any[]>} samples @param {'wallUs' | 'cpuUs'} figure */
function ratios(samples, figure) {
  const of = (/** @type {string} */ build) => (samples[build] ?? []).map((sample) => Number(sample[figure]));
  const [first, second, now] = [of('before'), of('again'), of('after')];
  // What the build before costs in a round is the geometric mean of its two samples.
  const usual = first.map((value, round) => Math.sqrt(value * Number(second[round])));
  const interval = (/** @type {number[]} */ values) => withInterval(bootstrapMedian(values, random), 3);
  return [
    median(usual).toFixed(3),
    interval(now.map((value, round) => value / Number(usual[round]))),
    interval(second.map((value, round) => value / Number(first[round]))),
  ];
}

const rows = [...scenes].flatMap(([scene, { samples }]) => [
  [scene, 'CPU', ...ratios(samples, 'cpuUs')],
  ['', 'time', ...ratios(samples, 'wallUs')],
]);
console.log(`${describeMachine()}. ${ROUNDS} rounds; a ratio below 1 means that the build after is cheaper. The time is that of a call with 30 callers at once,
divided by them; a pick is made alone. CPU is that of the client's process.

before: ${builds.before}
after:  ${builds.after}

${table(['one call', 'of', 'before, µs', 'after : before', 'A/A'], rows, [1])}
${missing.map((scene) => `\nNot measured, since there is no server for it here: ${scene}.`).join('')}`);
