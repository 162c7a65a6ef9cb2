/**
 * What an entry point adds to importing its peer: a process that imports the peer alone beside one that imports the entry
 * point, which imports the peer.
 *
 *   node --expose-gc test/bench/imports.bench.mjs [--quick]
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { seededRng } from 'evenkeel/testing';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, median, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const ROUNDS = process.argv.includes('--quick') ? 10 : MIN_ROUNDS;
const LIMIT = 0.35;
const rng = seededRng(1);
const pairs = [
  ['undici', 'evenkeel/undici'],
  ['@grpc/grpc-js', 'evenkeel/grpc-js'],
  ['mysql2', 'evenkeel/mysql2'],
];
const NOTHING = '';
const root = fileURLToPath(new URL('../../', import.meta.url));

/** How long a process takes that imports this and ends, in ms. @param {string} specifier */
function importing(specifier) {
  const source = specifier === NOTHING ? '' : `import '${specifier}';`;
  const began = performance.now();
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', source], { cwd: root });
  if (status !== 0) throw new Error(`import of ${specifier} failed: ${stderr}`);
  return performance.now() - began;
}

/** @type {Map<string, number[]>} */
const samples = new Map([NOTHING, ...pairs.flat()].map((specifier) => [specifier, []]));
for (let round = -2; round < ROUNDS; round++) {
  for (const [specifier, values] of shuffled([...samples], () => rng.next())) {
    const tookMs = importing(specifier);
    if (round >= 0) values.push(tookMs);
  }
}
/** @param {string} specifier */
const took = (specifier) => samples.get(specifier) ?? [];
const rows = pairs.map(([peer = '', entry = '']) => {
  const alone = took(peer).map((value, round) => value - Number(took(NOTHING)[round]));
  const added = took(entry).map((value, round) => value - Number(took(peer)[round]));
  const share = bootstrapMedian(
    added.map((value) => value / median(alone)),
    () => rng.next(),
  );
  return [
    `\`${entry}\``,
    `${median(alone).toFixed(0)} ms`,
    `${median(added).toFixed(0)} ms`,
    `≤ ${LIMIT}`,
    withInterval(share),
    judgeLimit(share, LIMIT),
  ];
});
console.log(`## Imports

What importing an entry point adds to importing its peer alone, in processes of their own, ${ROUNDS} rounds in random order; the
start of Node itself is taken off.

${table(['entry point', 'peer alone', 'added', 'wanted', 'added / peer [95 %]', 'verdict'], rows, [0, 5])}
`);
