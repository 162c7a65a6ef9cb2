import { expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it('examples/server: a client with reports avoids the busy pod, and a pod that leaves answers every POST', async () => {
  await buildPackage();
  const stdout = await outputOf(['examples/server/main.js']);
  expect(stdout).toMatch(/anna says: TEXT named_metrics\.evenkeel_in_flight=\d+/);
  const [, anna, bert] = /with reports: +\{ anna: (\d+), bert: (\d+), cleo: \d+ \}/.exec(stdout) ?? [];
  expect(Number(anna)).toBeLessThan(Number(bert));
  expect(stdout).toMatch(/bert leaves: +50 of 50 POSTs were answered, exit code 0/);
});
