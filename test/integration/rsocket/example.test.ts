import { expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it('examples/rsocket: every pod has its share, and the stream of a pod that is replaced comes to its end', async () => {
  await buildPackage();
  const stdout = await outputOf(['examples/rsocket/demo.js']);
  expect(stdout).toMatch(/three pods: +\{ anna: 100, bert: 100, cleo: 100 \}/);
  expect(stdout).toMatch(/anna is replaced: +\{ bert: \d+, cleo: \d+, dora: \d+ \}/);
  expect(stdout).toContain('the stream of anna: 11 payloads, completed');
  expect(stdout).toContain('the stream of bert: 11 payloads, goes on');
});
