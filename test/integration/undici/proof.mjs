/**
 * What is promised for HTTP, at full counts: `npm run proof:http`. About half an hour on two cores, best with nothing
 * else to do; figures are printed.
 *
 *   npm run proof:http -- kill keep-alive    only those files
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const all = [
  'rollout',
  'held-rollout',
  'streams',
  'drain',
  'kill',
  'keep-alive',
  'recycled-address',
  'newcomer',
  'faults',
  'chaos',
];
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`No such proof: ${unknown.join(', ')}. There are: ${all.join(', ')}`);
  process.exit(2);
}
const chosen = wanted.length > 0 ? wanted : all;

/** @param {string[]} args */
const run = (args) =>
  new Promise((resolve) => {
    const env = { ...process.env, EVENKEEL_PROOF: '1' };
    const child = spawn(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
    child.on('exit', (code) => resolve(code ?? 1));
  });

const files = chosen.map((name) => `test/integration/undici/${name}.test.ts`);
let code = await run(['node_modules/vitest/vitest.mjs', 'run', '--project=integration', ...files]);
// HTTP/2 needs undici 8, which needs Node 22: a row of the matrix.
if (chosen.includes('rollout')) code = (await run(['scripts/matrix.mjs', '22', 'undici-8-h2-rollout'])) || code;
process.exitCode = code;
