import { resolverFrom, type TargetOptions } from 'evenkeel';
import { FakeClock } from 'evenkeel/testing';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DiscoveryWorld, reader } from '../../support/fixtures/discovery-world.js';
import { Pods } from '../../support/pods/pods.js';
import { ServiceAddress } from '../../support/pods/service-address.js';
import { until } from '../../support/until.js';

let world: DiscoveryWorld;
let pods: Pods;
let address: ServiceAddress;
let dispatcher: ServiceDispatcher;
let clock: FakeClock | undefined;
let modes: string[];

beforeEach(async () => {
  [world, pods] = await Promise.all([DiscoveryWorld.create(), Pods.start(3)]);
  address = await ServiceAddress.start(pods.all);
  modes = [];
  clock = undefined;
  const name = { namespace: 'shop', name: 'orders' };
  world.dns.kubernetes.set({ ...name, clusterIPs: ['127.0.0.1'], ports: [{ name: 'http', port: address.port }] });
  const ports = [{ name: 'http', port: address.port, targetPort: 'http' }];
  world.api
    .service('shop', 'orders', { ports })
    .setPods(pods.all.map((pod) => ({ name: pod.name, address: '127.0.0.1', ports: { http: pod.port } })));
});
afterEach(async () => {
  await dispatcher.destroy();
  await address[Symbol.asyncDispose]();
  await pods[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

function open(options: Partial<TargetOptions> = {}): void {
  const allowed = { allowAddresses: ['loopback'] as const, ...options };
  dispatcher = createDispatcher(`http://orders.shop:${address.port}`, {
    resolver: resolverFrom(`orders.shop:${address.port}`, world.options(allowed)),
    observer: { discoveryChanged: ({ mode }) => modes.push(mode) },
    // Where time is a test's own it runs faster than sockets do.
    ...(clock !== undefined && { clock, waitTimeoutMs: 600_000, pool: { connectTimeoutMs: 600_000 } }),
  });
}

const get = async (): Promise<number> => {
  const { statusCode, body } = await dispatcher.request({ path: '/', method: 'GET' });
  await body.dump();
  return statusCode;
};

it('a cluster IP: one client reaches all pods over its eight connections, and other pods as connections are replaced', async () => {
  world.allow([]);
  open({ connectionAgeMs: 1_000 });
  await dispatcher.balancer.ready();
  await until('eight connections', () =>
    dispatcher.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
  );
  expect(modes).toEqual(['name']);
  expect(dispatcher.balancer.snapshot().endpoints).toHaveLength(8);
  // Eight at once, as one alone would go over the first connection.
  for (let burst = 0; burst < 12; burst++) {
    for (const status of await Promise.all(Array.from({ length: 8 }, get))) expect(status).toBe(200);
  }
  expect((await pods.stats()).map(({ requests }) => requests > 0)).toEqual([true, true, true]);
  await until('new draws', () => address.connections >= 24);
  expect(await get()).toBe(200);
  await until('old ones closed', async () => (await pods.total('open')) <= 16);
});

it('a cluster IP: a pod that dies costs no GET', async () => {
  world.allow([]);
  open();
  await dispatcher.balancer.ready();
  for (let request = 0; request < 50; request++) expect(await get()).toBe(200);
  const [dead, ...alive] = pods.all;
  address.pods = alive;
  await dead?.kill();
  for (let request = 0; request < 200; request++) expect(await get()).toBe(200);
});

it('moving from the cluster IP to EndpointSlices and back fails no request', async () => {
  clock = new FakeClock(0);
  world.allow([]);
  open();
  const failures = new Map<string, number>();
  const failed = (what: unknown): void => {
    failures.set(String(what), (failures.get(String(what)) ?? 0) + 1);
  };
  let done = false;
  let sent = 0;
  const traffic = async (): Promise<void> => {
    while (!done) {
      sent++;
      await get().then((status) => {
        if (status !== 200) failed(status);
      }, failed);
      // A refusal takes no I/O: without this a row of them would hold the event loop.
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const running = [traffic(), traffic(), traffic(), traffic()];
  const passUntil = (what: string, condition: () => boolean): Promise<void> =>
    until(what, () => {
      clock?.advance(100);
      return condition();
    });
  await passUntil('the cluster IP', () => modes.length === 1 && sent > 100);
  world.allow(reader);
  await passUntil('the climb', () => modes.at(-1) === 'slices');
  const atClimb = sent;
  await passUntil('requests over slices', () => sent > atClimb + 200);
  world.allow([]);
  world.api.disturb('end');
  world.api.compact();
  await passUntil('the fall', () => modes.at(-1) === 'name');
  const atFall = sent;
  await passUntil('requests over the cluster IP', () => sent > atFall + 200);
  done = true;
  await Promise.all(running);
  expect(modes).toEqual(['name', 'slices', 'name']);
  expect([...failures]).toEqual([]);
  expect(sent).toBeGreaterThan(500);
});
