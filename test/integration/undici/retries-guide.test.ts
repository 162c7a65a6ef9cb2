import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runProgram } from '../../support/consumer.js';
import { Pods } from '../../support/pods.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const guide = readFileSync(new URL('../../../docs/guide/retries.md', import.meta.url), 'utf8');
/** The programs of the guide, each with the heading it stands under. */
const programs = guide.split(/^## /m).flatMap((section) => {
  const [heading = ''] = section.split('\n', 1);
  return [...section.matchAll(/^```js\n([\s\S]*?)^```/gm)].map(([, source]) => ({ heading, source: source as string }));
});
/** Two pods of three answer 503, as long as they warm up. */
const expected: Readonly<Record<string, RegExp>> = {
  Statuses: /^(attempt \d: failure \(status\), asking another pod\n)*200 \{.*pod-2.*42/s,
  'A rule of your own': /^200 \{.*pod-2.*42/s,
  Hedging: /^(200|503)\n(200|503)\n(200|503)\n$/,
  Deadlines: /^EVENKEEL_DEADLINE http:\/\/orders\.shop:8080: GET did not finish within 300 ms: no answer from 127/,
};

let pods: Pods;
beforeAll(async () => {
  const built = await runProgram(process.execPath, ['scripts/build.mjs'], root);
  expect(built.code, built.stdout + built.stderr).toBe(0);
  pods = await Pods.start(3);
  for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ status: 503, headers: { 'x-reason': 'warming up' } });
});
afterAll(() => pods[Symbol.asyncDispose]());

it('has the programs expected here', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

it.each(programs)('$heading: the program runs and ends', async ({ heading, source }) => {
  const resolver = `resolver: (await import('evenkeel')).staticEndpoints(${JSON.stringify(pods.endpoints)})`;
  const program = source.replace("'http://orders.shop:8080', {", `$& ${resolver},`);
  expect(program).not.toBe(source);
  const { code, stdout, stderr } = await runProgram(process.execPath, ['--input-type=module', '-e', program], root);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toMatch(expected[heading] as RegExp);
});
