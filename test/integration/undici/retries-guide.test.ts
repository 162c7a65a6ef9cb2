import { afterAll, beforeAll, expect, it } from 'vitest';
import { Pods } from '../../support/pods.js';
import { buildPackage, guidePrograms, outputOfModule } from '../../support/programs.js';

const programs = guidePrograms('retries');
/** Two pods of three answer 503, as long as they warm up. */
const expected: Readonly<Record<string, RegExp>> = {
  Statuses: /^(attempt \d: failure \(status\), asking another pod\n)*200 \{.*pod-2.*42/s,
  'A rule of your own': /^200 \{.*pod-2.*42/s,
  Hedging: /^(200|503)\n(200|503)\n(200|503)\n$/,
  Deadlines: /^EVENKEEL_DEADLINE http:\/\/orders\.shop:8080: GET did not finish within 300 ms: no answer from 127/,
};

let pods: Pods;
beforeAll(async () => {
  await buildPackage();
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
  const stdout = await outputOfModule(program);
  expect(stdout).toMatch(expected[heading] as RegExp);
});
