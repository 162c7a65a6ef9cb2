import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runProgram } from '../../support/consumer.js';
import { Pod } from '../../support/pods.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const guide = readFileSync(new URL('../../../docs/guide/http.md', import.meta.url), 'utf8');
/** The programs of the guide, each with the heading it stands under. */
const programs = guide.split(/^## /m).flatMap((section) => {
  const [heading = ''] = section.split('\n', 1);
  return [...section.matchAll(/^```js\n([\s\S]*?)^```/gm)].map(([, source]) => ({ heading, source: source as string }));
});
const expected: Readonly<Record<string, readonly RegExp[]>> = {
  'A dispatcher for `fetch`, `undici.request` and everything that takes one': [/^200 \{.*42/s, /200 \{.*43/s],
  'A `fetch` of its own': [/^200\n200\n$/],
  'What it repeats, and what it does not': [/\/v1\/orders/],
  'Waiting, errors, aborts': [/^TimeoutError\n/, /state: 'ready', inFlight: 0/, /EVENKEEL_CLOSED\n$/],
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
  for (const pattern of expected[heading] ?? []) expect(stdout).toMatch(pattern);
});
