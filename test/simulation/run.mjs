/**
 * The simulator by hand.
 *
 *   node test/simulation/run.mjs                        prints all tables and draws docs/images/simulation-*.svg
 *   node test/simulation/run.mjs balance [scenario …]   only how ways to balance compare, in all scenarios or those that are named
 *     --rows=Prequal,default                            only the rows whose names contain one of these
 *   node test/simulation/run.mjs pickers                all tables but those
 *   node test/simulation/run.mjs list                   only the names of the scenarios
 *   node test/simulation/run.mjs --proof                the tests at full counts: five seeds, a few minutes
 *   node test/simulation/run.mjs --scale                1,000 clients and 1,000 servers, and how long that takes
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { importSources } from '../../scripts/build.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const given = process.argv.slice(2);
const isProof = given.length === 1 && given[0] === '--proof';
const isScale = given.length === 1 && given[0] === '--scale';
const rows = given.find((value) => value.startsWith('--rows='))?.slice('--rows='.length);
const [what, ...scenarios] = given.filter((value) => !value.startsWith('--'));
const isKnown =
  what === undefined || what === 'balance' || (['pickers', 'list'].includes(what) && scenarios.length === 0);
const isUnknownOption = given.some((value) => value.startsWith('--') && !value.startsWith('--rows='));
if (!isKnown || (isUnknownOption && !isProof && !isScale)) {
  console.error('Usage: run.mjs [--proof | --scale | list | pickers | balance [scenario …] [--rows=name,…]]');
  process.exit(2);
}
if (isProof) {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--project=simulation', '--testTimeout=600000'];
  const env = { ...process.env, EVENKEEL_PROOF: '1' };
  spawn(process.execPath, args, { cwd: root, stdio: 'inherit', env }).on('close', (code) => {
    process.exitCode = code ?? 1;
  });
} else if (isScale && process.execArgv.length === 0) {
  // A million connections take 4 GiB; with V8's small space for new objects it would copy a part of them again and again.
  const memory = ['--max-old-space-size=8192', '--initial-old-space-size=7000', '--max-semi-space-size=128'];
  const self = fileURLToPath(import.meta.url);
  spawn(process.execPath, [...memory, self, '--scale'], { cwd: root, stdio: 'inherit' }).on('close', (code) => {
    process.exitCode = code ?? 1;
  });
} else {
  // Bundled, because a million calls through the loader of the test runner take half as long again.
  const folder = 'test/simulation';
  const [{ scale }, { report }, { balanceScenarios, reportBalance }] = await importSources(
    `${folder}/scale.ts`,
    `${folder}/report.ts`,
    `${folder}/balance-report.ts`,
  );
  if (isScale) await scale();
  else if (what === 'list') for (const { name, title } of balanceScenarios) console.log(`${name}: ${title}`);
  else {
    const images = join(root, 'docs/images');
    if (what !== 'balance') await report(images);
    const isAll = scenarios.length === 0 && rows === undefined;
    const contenders = rows === undefined ? [] : rows.split(',');
    if (what !== 'pickers') await reportBalance({ scenarios, contenders, images: isAll ? images : undefined });
  }
}
