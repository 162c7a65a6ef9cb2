import { expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it('examples/tcp: connections are evenly spread, also after a scale-out, and leave a pod that is replaced', async () => {
  await buildPackage();
  const stdout = await outputOf(['examples/tcp/demo.js']);
  expect(stdout).toMatch(/three pods: +\{ anna: 10, bert: 10, cleo: 10 \}/);
  expect(stdout).toMatch(/dora joins: +\{ anna: [789], bert: [789], cleo: [789], dora: \d \}/);
  expect(stdout).toMatch(/anna has left: +\{ bert: \d+, cleo: \d+, dora: \d+ \}/);
  expect(stdout).toMatch(/connections lost: +0/);
});
