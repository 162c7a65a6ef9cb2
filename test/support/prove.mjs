/** Shared by the programs `proof.mjs`: runs test files at the full counts of a proof. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Runs test files at full counts and prints their output. Returns the exit code.
 * @param {readonly string[]} files such as `test/integration/ws/rollout.test.ts`
 * @param {readonly string[]} [options] of vitest
 */
export function prove(files, options = ['--project=integration']) {
  return runInRoot(['node_modules/vitest/vitest.mjs', 'run', ...options, ...files]);
}

/** Runs a program of the repository. Returns its exit code. @param {readonly string[]} args */
export function runInRoot(args) {
  const env = { ...process.env, EVENKEEL_PROOF: '1' };
  const { status } = spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
  return status ?? 1;
}

/** The items of `all` named on the command line, or all. Exits if it names another. @param {readonly string[]} all @param {string} what one of them is */
export function chosenOf(all, what) {
  const wanted = process.argv.slice(2);
  const unknown = wanted.filter((name) => !all.includes(name));
  if (unknown.length > 0) {
    console.error(`No such ${what}: ${unknown.join(', ')}. There are: ${all.join(', ')}`);
    process.exit(2);
  }
  return wanted.length > 0 ? wanted : all;
}
