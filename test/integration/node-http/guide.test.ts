import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runProgram } from '../../support/consumer.js';
import { Pod } from '../../support/pods.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const guide = readFileSync(new URL('../../../docs/guide/node-http.md', import.meta.url), 'utf8');
/** The programs of the guide, each with the heading it stands under. */
const programs = guide.split(/^## /m).flatMap((section) => {
  const [heading = ''] = section.split('\n', 1);
  return [...section.matchAll(/^```js\n([\s\S]*?)^```/gm)].map(([, source]) => ({ heading, source: source as string }));
});
const expected: Readonly<Record<string, RegExp>> = {
  axios: /^200 \/v1\/orders\/42\n$/,
  got: /^\/v1\/orders\/42\n$/,
  'node-fetch, superagent and `http.request`': /^200\n200\n200\n$/,
  WebSocket: /^pod\n$/,
  'Time-outs and aborts': /^AbortError\n.*state: 'ready', inFlight: 0.*EVENKEEL_CLOSED\n$/s,
};

let pod: Pod;
beforeAll(async () => {
  const built = await runProgram(process.execPath, ['scripts/build.mjs'], root);
  expect(built.code, built.stdout + built.stderr).toBe(0);
  pod = await Pod.start();
});
afterAll(() => pod.kill());

it('has the programs expected here', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

it.each(programs)('$heading: the program runs and ends', async ({ heading, source }) => {
  const program = source.replaceAll('orders.shop:8080', `127.0.0.1:${pod.port}`);
  const { code, stdout, stderr } = await runProgram(process.execPath, ['--input-type=module', '-e', program], root);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toMatch(expected[heading] as RegExp);
});

it('examples/axios: every pod has its share, before, while and after pods are replaced', async () => {
  const { code, stdout, stderr } = await runProgram(process.execPath, ['examples/axios/main.js'], root);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toContain('three pods:              { anna: 100, bert: 100, cleo: 100 }');
  expect(stdout).toContain('a fourth one joined:     { anna: 100, bert: 100, cleo: 100, dora: 100 }');
  expect(stdout).toContain('after that:              { cleo: 100, dora: 100, emil: 100 }');
});
