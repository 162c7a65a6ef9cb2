import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runProgram } from '../../support/consumer.js';
import { refusingEndpoint } from '../../support/hanging-endpoint.js';
import { Pods } from '../../support/pods.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const program = fileURLToPath(new URL('support/idle-client.mjs', import.meta.url));
let pods: Pods;

beforeAll(async () => {
  // The program runs the package as built: without vitest in its process there is nobody else to keep it alive.
  const built = await runProgram(process.execPath, ['scripts/build.mjs'], root);
  expect(built.code, built.stdout + built.stderr).toBe(0);
  pods = await Pods.start(2);
});
afterAll(() => pods[Symbol.asyncDispose]());

it.each([
  ['that sent requests', 'request', ['200', '200', '200', 'done']],
  ['that sent requests by axios', 'axios', ['200', '200', '200', 'done']],
  ['that sent none', 'none', ['done']],
])('a process %s and did not close its agent ends by itself', async (_what, how, expected) => {
  // One of the endpoints refuses: reconnecting goes on in the background all the time.
  const ports = [...pods.endpoints, await refusingEndpoint()].map(({ port }) => String(port));
  const { code, stdout, stderr } = await runProgram(process.execPath, [program, how, ...ports], root);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout.trim().split('\n')).toEqual(expected);
});
