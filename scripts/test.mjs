/**
 * `npm test`: the set-up and the checks. One script and not two, since npm hands its arguments to `test` only, and not to a `pretest`.
 *
 *   npm test                          what needs nothing but Node and npm: some minutes, and nothing is installed outside of this folder
 *   npm test -- --all                 everything, as the CI does; as root on Linux it first installs what some tests use (apt-get)
 *   npm test -- --all --no-install    the same without installing any system package
 *   npm test -- lint unit             those checks
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const scripts = dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const NO_INSTALL = '--no-install';
const isAll = args.includes('--all');

/** @param {string} script @param {readonly string[]} given */
function run(script, given) {
  const { status } = spawnSync(process.execPath, [join(scripts, script), ...given], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

run('set-up.mjs', isAll ? ['--system', ...args.filter((arg) => arg === NO_INSTALL)] : []);
run(
  'check.mjs',
  args.filter((arg) => arg !== NO_INSTALL),
);
