import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, it } from 'vitest';
import { Pods } from '../../support/pods/pods.js';
import { buildPackage, expectToEnd } from '../../support/programs/programs.js';

const program = fileURLToPath(new URL('support/idle-client.mjs', import.meta.url));
let pods: Pods;

beforeAll(async () => {
  // The program runs the package as built: without vitest in its process there is nobody else to keep it alive.
  await buildPackage();
  pods = await Pods.start(2);
});
afterAll(() => pods[Symbol.asyncDispose]());

it.each([
  ['that sent requests', 'request', ['200', '200', '200', 'done']],
  ['that sent requests by axios', 'axios', ['200', '200', '200', 'done']],
  ['that sent none', 'none', ['done']],
])('a process %s and did not close its agent ends by itself', async (_what, how, expected) => {
  await expectToEnd([program, how], pods.endpoints, expected);
});
