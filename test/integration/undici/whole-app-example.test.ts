import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { runProgram } from '../../support/consumer.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

it('examples/whole-app: plain fetch reaches every pod of both Services, and the host outside', async () => {
  // Its programs run the package as built.
  const built = await runProgram(process.execPath, ['scripts/build.mjs'], root);
  expect(built.code, built.stdout + built.stderr).toBe(0);
  const { code, stdout, stderr } = await runProgram(process.execPath, ['examples/whole-app/main.js'], root);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  const [, before = '', after = ''] = stdout.split(/^\S.*:$/m);
  for (const pod of ['anna', 'bert', 'cleo', 'xaver', 'yvonne']) expect(before).toMatch(new RegExp(`${pod}: [1-9]`));
  for (const pod of ['anna', 'cleo', 'xaver', 'yvonne', 'zoe']) expect(after).toMatch(new RegExp(`${pod}: [1-9]`));
  for (const part of [before, after]) expect(part).toContain('{ bank: 300 }');
  expect(after).not.toContain('bert');
  expect(stdout).toContain('orders.shop.svc.cluster.local. is a Service');
});
