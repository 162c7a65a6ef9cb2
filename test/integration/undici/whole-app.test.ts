import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';
import { Pod } from '../../support/pods/pods.js';
import { buildPackage, guidePrograms, outputOf } from '../../support/programs/programs.js';

beforeAll(buildPackage);

it('examples/whole-app: plain fetch reaches every pod of both Services, and the host outside', async () => {
  const stdout = await outputOf(['examples/whole-app/main.js']);
  const [, before = '', after = ''] = stdout.split(/^\S.*:$/m);
  for (const pod of ['anna', 'bert', 'cleo', 'xaver', 'yvonne']) expect(before).toMatch(new RegExp(`${pod}: [1-9]`));
  for (const pod of ['anna', 'cleo', 'xaver', 'yvonne', 'zoe']) expect(after).toMatch(new RegExp(`${pod}: [1-9]`));
  for (const part of [before, after]) expect(part).toContain('{ bank: 300 }');
  expect(after).not.toContain('bert');
  expect(stdout).toContain('orders.shop.svc.cluster.local. is a Service');
});

describe('docs/guide/whole-app.md', () => {
  const programs = guidePrograms('whole-app');
  const expected: Readonly<Record<string, RegExp>> = {
    'One line: undici and fetch, with require': /^$/,
    'One line: node:http, with require': /^$/,
    'Inspecting it':
      /^200\n200\nhttp:\/\/orders\.shop:8080 ready 1\norders\.shop\.svc\.cluster\.local\. true undefined\n\[ 'http:\/\/orders\.shop:8080' \]\n$/,
    'An Agent you already have': /^200 \{.*"pod":"pod".*\/v1\/orders\/42/,
  };

  let world: DiscoveryWorld;
  let pod: Pod;
  let outside: Pod;
  beforeAll(async () => {
    [world, pod, outside] = await Promise.all([DiscoveryWorld.create(), Pod.start(), Pod.start({ name: 'outside' })]);
    const ports = [{ name: 'http', port: 8080, targetPort: 'http' }];
    world.dns.kubernetes.set({ namespace: 'shop', name: 'orders', clusterIPs: ['10.96.0.1'] });
    world.api
      .service('shop', 'orders', { ports })
      .setPods([{ name: 'pod', address: '127.0.0.1', ports: { http: pod.port } }]);
  });
  afterAll(async () => {
    await Promise.all([pod.kill(), outside.kill()]);
    await world[Symbol.asyncDispose]();
  });

  it('has the expected programs', () => {
    expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
  });

  it.each(programs)('$heading: the program runs and ends', async ({ heading, source, format }) => {
    // What a pod's environment says, and a test's does not.
    const options = JSON.stringify({
      discovery: world.options({ allowAddresses: ['loopback'], sliceGraceMs: 60_000 }),
    });
    const program = source
      .replace('createAppAgent()', `createAppAgent(${options})`)
      .replace('appInterceptor()', `appInterceptor(${options})`)
      .replace('127.0.0.1:9999', `127.0.0.1:${outside.port}`);
    // Each in a process of its own, since each replaces the dispatcher of its process.
    const stdout = await outputOf([`--input-type=${format}`, '-e', program]);
    expect(stdout).toMatch(expected[heading] as RegExp);
  });
});
