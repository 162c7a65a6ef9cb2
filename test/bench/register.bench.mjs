/**
 * What `--require evenkeel/register` adds to the start of a process in a pod: an empty script, and a server that listens and ends, each
 * beside the same with an empty file required, in turns.
 *
 *   node --expose-gc test/bench/register.bench.mjs [--quick]
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { seededRng } from 'evenkeel/testing';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, median, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const ROUNDS = process.argv.includes('--quick') ? 10 : MIN_ROUNDS;
const rng = seededRng(1);
const folder = mkdtempSync(join(tmpdir(), 'evenkeel-register-bench-'));
const empty = join(folder, 'empty.cjs');
writeFileSync(empty, '');
const register = fileURLToPath(new URL('../../dist/register/register.cjs', import.meta.url));
const programs = {
  'an empty script': { source: '', limitMs: 15 },
  'a server that calls nobody': {
    source: `const server = require('node:http').createServer(); server.listen(0, '127.0.0.1', () => server.close());`,
    limitMs: 60,
  },
};
const required = { stock: empty, 'stock again': empty, register };

/** How long a process takes from its start to its end, in ms. @param {string} file @param {string} source */
function running(file, source) {
  const env = {
    ...process.env,
    NODE_OPTIONS: '',
    KUBERNETES_SERVICE_HOST: '10.96.0.1',
    KUBERNETES_SERVICE_PORT: '443',
  };
  const began = performance.now();
  const { status, stderr } = spawnSync(process.execPath, ['--require', file, '-e', source], { env, encoding: 'utf8' });
  if (status !== 0 || stderr !== '') throw new Error(`it failed: ${stderr}`);
  return performance.now() - began;
}

const cases = Object.entries(programs).flatMap(([program, { source }]) =>
  Object.entries(required).map(([name, file]) => ({ program, name, file, source, ms: /** @type {number[]} */ ([]) })),
);
try {
  for (let round = -2; round < ROUNDS; round++) {
    for (const { file, source, ms } of shuffled(cases, () => rng.next())) {
      const tookMs = running(file, source);
      if (round >= 0) ms.push(tookMs);
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
/** @param {string} program @param {string} name */
const msOf = (program, name) => cases.find((one) => one.program === program && one.name === name)?.ms ?? [];
const rows = Object.entries(programs).map(([program, { limitMs }]) => {
  const stock = msOf(program, 'stock');
  /** @param {string} name */
  const added = (name) =>
    bootstrapMedian(
      msOf(program, name).map((value, round) => value - Number(stock[round])),
      () => rng.next(),
    );
  const ours = added('register');
  return [
    program,
    `${median(stock).toFixed(0)} ms`,
    withInterval(added('stock again')),
    withInterval(ours),
    `≤ ${limitMs}`,
    judgeLimit(ours, limitMs),
  ];
});
console.log(`## Starting with register

A process in a pod with \`--require evenkeel/register\`, beside the same with an empty file required: ${ROUNDS} rounds in turns, from start to end, in ms more than
stock, median with its 95 % interval. Nothing else of evenkeel is loaded before a host that may be a Service is called.

${table(['', 'stock', 'stock again, more', 'register, more', 'wanted', 'verdict'], rows, [5])}
`);
