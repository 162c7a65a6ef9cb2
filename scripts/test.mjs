/**
 * `npm test`: the set-up and all checks. One script and not two, since npm hands its arguments to `test` only, and not to a `pretest`.
 *
 *   npm test                        the set-up installs what some tests use where it may (root, with apt-get), then all checks
 *   npm test -- --no-install        the same without installing any system package
 *   npm test -- lint unit           the set-up, then those checks
 */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const scripts = dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const NO_INSTALL = '--no-install';

/** @param {string} script @param {readonly string[]} given */
function run(script, given) {
  const { status } = spawnSync(process.execPath, [join(scripts, script), ...given], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

run('set-up.mjs', ['--system', ...args.filter((arg) => arg === NO_INSTALL)]);
run(
  'check.mjs',
  args.filter((arg) => arg !== NO_INSTALL),
);
