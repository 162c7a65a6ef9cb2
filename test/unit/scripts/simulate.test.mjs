import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { importSources } from '../../../scripts/build.mjs';
import { balanceScenarios } from '../../simulation/lib/balance.js';

const program = fileURLToPath(new URL('../../simulation/run.mjs', import.meta.url));

it('npm run simulate knows every scenario, and plays one', () => {
  const run = (...args) => execFileSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  const listed = run('list').trim().split('\n');
  expect(listed.map((line) => line.split(':')[0])).toEqual(balanceScenarios.map(({ name }) => name));
  // No contender is named so: what is left is the table's head.
  expect(run('balance', 'tenth', '--rows=none')).toContain('One of 10 pods at a tenth of its speed');
});

it('sources imported after others export what they should', async () => {
  // They share chunks of the same names with different contents.
  const [first] = await importSources('test/simulation/report.ts');
  const [second] = await importSources('test/simulation/balance-report.ts');
  expect(first.report).toBeTypeOf('function');
  expect(second.reportBalance).toBeTypeOf('function');
});
