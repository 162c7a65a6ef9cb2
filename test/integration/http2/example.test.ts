import { expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it('examples/connect: every pod has its share, and the stream of a pod that is replaced comes to its end', async () => {
  await buildPackage();
  const stdout = await outputOf(['examples/connect/demo.js']);
  expect(stdout).toMatch(/three pods: +\{ anna: 100, bert: 100, cleo: 100 \}/);
  expect(stdout).toMatch(/anna is replaced: +\{ bert: \d+, cleo: \d+, dora: \d+ \}/);
  expect(stdout).toContain('the stream of anna: completed');
  expect(stdout).toContain('the stream of bert: goes on');
});
