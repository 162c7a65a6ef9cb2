import { afterAll, beforeAll, expect, it } from 'vitest';
import { Pod } from '../../support/pods/pods.js';
import {
  buildPackage,
  guidePrograms,
  outputOf,
  outputOfModule,
  outputOfProgram,
} from '../../support/programs/programs.js';

const programs = guidePrograms('node-http');
const expected: Readonly<Record<string, RegExp>> = {
  axios: /^200 \/v1\/orders\/42\n$/,
  'axios, with require': /^200 \/v1\/orders\/42\n$/,
  got: /^\/v1\/orders\/42\n$/,
  'node-fetch, superagent and `http.request`': /^200\n200\n200\n$/,
  WebSocket: /^pod\n$/,
  'Retries by status with axios': /^200\n$/,
  'Retries by status with got': /^200\n$/,
  'Timeouts and aborts': /^AbortError\n.*state: '(?:ready|connecting)', inFlight: 0.*EVENKEEL_CLOSED\n$/s,
  Deadlines: /^EVENKEEL_DEADLINE http:.* GET did not finish within 300 ms: no answer from 127\.0\.0\.1:\d+\n$/,
  'Sticky routing': /^200\n$/,
};

let pod: Pod;
beforeAll(async () => {
  await buildPackage();
  pod = await Pod.start();
});
afterAll(() => pod.kill());

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

/** A program of the guide, with the pod in place of the Service. */
const runnable = (source: string): string =>
  source.replaceAll('orders.shop:8080', `127.0.0.1:${pod.port}`).replace(
    // What is told of a request that hangs is about its pod, not about how long a busy machine takes to connect.
    /^const agent = createAgent\(.*(?:waitTimeoutMs|deadlineMs).*\n/m,
    '$&await agent.balancer.ready();\n',
  );

it.each(programs)('$heading: the program runs and ends', async ({ heading, source, format }) => {
  expect(await outputOfProgram({ source: runnable(source), format })).toMatch(expected[heading] as RegExp);
});

it.each(programs.filter(({ heading }) => heading.startsWith('Retries by status')))(
  '$heading: the program makes three attempts, and then fails',
  async ({ source }) => {
    await pod.behave({ status: 503 });
    const before = (await pod.stats()).requests;
    const program = `process.once('uncaughtException', ({ response }) => console.log('failed', response.status ?? response.statusCode));
      ${runnable(source)}`;
    expect(await outputOfModule(program)).toBe('failed 503\n');
    expect((await pod.stats()).requests - before).toBe(3);
    await pod.behave({ status: 200 });
  },
);

it('examples/axios: every pod is used before, during and after the replacement of pods, and three of them evenly', async () => {
  const stdout = await outputOf(['examples/axios/demo.js']);
  // The first two calls go to pods drawn by lot; after a pod came or went the turn begins anew. Four pods are not counted: those that
  // answer faster get more.
  expect(stdout).toMatch(/three pods: +\{ (\w+: (9[89]|10[0-2])(, )?){3} \}/);
  expect(stdout).toMatch(/a fourth one joined: +\{ (\w+: \d{2,3}(, )?){4} \}/);
  expect(stdout).toMatch(/after that: +\{ cleo: (9[89]|10[0-2]), dora: (9[89]|10[0-2]), emil: (9[89]|10[0-2]) \}/);
});
