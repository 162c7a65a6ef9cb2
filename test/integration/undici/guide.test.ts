import { afterAll, beforeAll, expect, it } from 'vitest';
import { Pod } from '../../support/pods/pods.js';
import { buildPackage, guidePrograms, outputOfProgram } from '../../support/programs/programs.js';

// Those of client libraries: test/integration/node-http/service-clients.test.ts.
const programs = guidePrograms('http').filter(({ heading }) => heading !== 'Client libraries');
const expected: Readonly<Record<string, readonly RegExp[]>> = {
  '# HTTP: undici and fetch': [/^200\n200\n$/],
  'A dispatcher': [/^200 \{.*42/s, /200 \{.*43/s],
  'A dispatcher, with require': [/^200 \{.*42/s, /200 \{.*43/s],
  'What is retried': [/\/v1\/orders/],
  'Sticky routing': [/^200\n$/],
  'Waiting, errors, aborts': [/^TimeoutError\n/, /state: 'ready', inFlight: 0/, /EVENKEEL_CLOSED\n$/],
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

it.each(programs)('$heading: the program runs and ends', async ({ heading, source, format }) => {
  // What is told of a request that hangs is about its pod, not about how long a busy machine takes to connect.
  const program = source
    .replaceAll('orders.shop:8080', `127.0.0.1:${pod.port}`)
    .replace('try {', 'await fetchOrders.balancer.ready();\ntry {')
    .replace('console.log(fetchOrders.balancer.snap', 'await fetchOrders.balancer.ready();\n$&');
  const stdout = await outputOfProgram({ source: program, format });
  for (const pattern of expected[heading] ?? []) expect(stdout).toMatch(pattern);
});
