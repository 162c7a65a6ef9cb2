import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { importSources } from '../../../scripts/build.mjs';
import { balanceScenarios } from '../../simulation/lib/balance.js';
import { evenScenarios } from '../../simulation/lib/evenness.js';
import { fleetScenarios } from '../../simulation/lib/fleet.js';

const program = fileURLToPath(new URL('../../simulation/run.mjs', import.meta.url));

it('npm run simulate lists every scenario, and runs one', () => {
  const run = (...args) => execFileSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  const listed = run('list').trim().split('\n');
  const names = new Set([...fleetScenarios, ...balanceScenarios, ...evenScenarios].map(({ name }) => name));
  expect(listed.map((line) => line.split(':')[0])).toEqual([...names]);
  // No contender is named so: what is left is the table's head.
  expect(run('balance', 'tenth', '--rows=none')).toContain('One of 10 pods at a tenth of its speed');
  expect(run('fleet', 'cold-1-of-4', '--rows=ideal,stock', '--seeds=1')).toMatch(
    /ideal, one queue .*\n.*stock, keep-alive/,
  );
  const map = run('map', '--clients=1', '--pods=3', '--loads=0.5', '--shape=bursty', '--seeds=1', '--effort=0.1');
  expect(map).toMatch(/against stock, keep-alive[\s\S]*\| 3 pods, 50 % \|/);
  expect(() => run('fleet', '--seeds=none')).toThrow('Usage');
});

it('sources that are imported in a certain order have the expected exports', async () => {
  // They share chunks of the same names with different contents.
  const [first] = await importSources('test/simulation/report.ts');
  const [second] = await importSources('test/simulation/balance-report.ts');
  expect(first.report).toBeTypeOf('function');
  expect(second.reportBalance).toBeTypeOf('function');
});
