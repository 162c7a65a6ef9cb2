import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Pods } from '../../support/pods/pods.js';
import { buildPackage, guidePrograms, outputOfModule, root } from '../../support/programs/programs.js';

const programs = guidePrograms('retries');
/** Two pods of three refuse, as long as they warm up: with 503, and those of the line protocol with LOADING. */
const expected: Readonly<Record<string, RegExp>> = {
  '# Retries, hedging and deadlines': /^(200|503)\n(200|503)\n(200|503)\n$/,
  Statuses: /^(attempt \d: failure \(status\), asking another pod\n)*200 \{.*pod-2.*42/s,
  'A rule of your own': /^200 \{.*pod-2.*42/s,
  'Calls of your own protocol': /^cleo order 42\n$/,
  Deadlines: /^EVENKEEL_DEADLINE http:\/\/orders\.shop:8080: GET did not finish within 300 ms: no answer from 127/,
};

const lines = pathToFileURL(`${root}/examples/any-protocol/`);
let pods: Pods;
let lineServers: ChildProcess[];
let linePorts: number[];
beforeAll(async () => {
  await buildPackage();
  pods = await Pods.start(3);
  for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ status: 503, headers: { 'x-reason': 'warming up' } });
  lineServers = ['LOADING', 'LOADING', 'cleo'].map((name) => fork(new URL('echo-server.js', lines), [name]));
  linePorts = await Promise.all(lineServers.map(async (server) => (await once(server, 'message'))[0] as number));
});
afterAll(async () => {
  for (const server of lineServers) server.disconnect();
  await pods[Symbol.asyncDispose]();
});

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

it.each(programs)('$heading: the program runs and ends', async ({ heading, source }) => {
  const isLines = source.includes('lineTransport');
  const endpoints = isLines ? linePorts.map((port) => ({ address: '127.0.0.1', port })) : pods.endpoints;
  const resolver = `resolver: (await import('evenkeel')).staticEndpoints(${JSON.stringify(endpoints)})`;
  // What is told of a request that hangs is about its pod, not about how long a busy machine takes to connect.
  const connected = source.replace('try {', 'await fetchOrders.balancer.ready();\ntry {');
  const program = isLines
    ? source.replace("'./line-transport.js'", `'${lines}line-transport.js'`).replace(/resolver: '[^']*'/, resolver)
    : connected.replace("'http://orders.shop:8080', {", `$& ${resolver},`);
  expect(program).toContain(resolver);
  const stdout = await outputOfModule(program);
  expect(stdout).toMatch(expected[heading] as RegExp);
});
