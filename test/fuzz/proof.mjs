/**
 * A million cases of each input somebody else writes: slices, answers of DNS, load reports, heads of HTTP. `npm run proof:fuzz`,
 * some ten minutes. `npm test` runs ten thousand of each. A failure names the seed of its case.
 *
 *   npm run proof:fuzz -- dns reports    only those
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const all = ['slices', 'dns', 'reports', 'http-heads'];
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`No such input: ${unknown.join(', ')}. There are: ${all.join(', ')}`);
  process.exit(2);
}
const files = (wanted.length > 0 ? wanted : all).map((name) => `test/fuzz/${name}.test.ts`);
const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project=unit', '--reporter=verbose', ...files],
  { cwd: root, env: { ...process.env, EVENKEEL_PROOF: '1' }, stdio: 'inherit' },
);
process.exitCode = status ?? 1;
