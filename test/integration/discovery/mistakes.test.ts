import { resolverFrom } from 'evenkeel';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';

let world: DiscoveryWorld;
let dispatcher: ServiceDispatcher;

beforeEach(async () => {
  world = await DiscoveryWorld.create();
  const ports = [
    { name: 'http', port: 8080 },
    { name: 'grpc', port: 50051 },
  ];
  world.api.service('shop', 'orders', { ports }).setPods([{ name: 'a', address: '127.0.1.1' }]);
});
afterEach(async () => {
  await dispatcher.destroy();
  await world[Symbol.asyncDispose]();
});

it.each([
  ['orders.shop:8081', 'EVENKEEL_RESOLVE', 'Service shop/orders has no port 8081; it has http 8080, grpc 50051'],
  [
    'orders.shop:htttp',
    'EVENKEEL_NO_ENDPOINTS',
    'orders.shop:htttp: it has no endpoint; Service shop/orders has no port named "htttp"; it has http 8080, grpc 50051',
  ],
  [
    'odrers.shop:8080',
    'EVENKEEL_NO_ENDPOINTS',
    'odrers.shop:8080: it has no endpoint; there is no Service odrers in the namespace shop',
  ],
])('a request to %s is refused with the reason', async (target, code, message) => {
  // Who waits longer than any test may take did not hear it in time.
  dispatcher = createDispatcher('http://orders.shop:8080', {
    resolver: resolverFrom(target, world.options({ allowAddresses: ['loopback'] })),
    waitTimeoutMs: 600_000,
    startTimeoutMs: 600_000,
  });
  for (let request = 0; request < 2; request++) {
    await expect(dispatcher.request({ path: '/', method: 'GET' })).rejects.toMatchObject({ code, message });
  }
});

it('without permission: a misspelled name is refused with what DNS says, in the first call and in later ones', async () => {
  world.allow([]);
  dispatcher = createDispatcher('http://odrers.shop:8080', {
    resolver: resolverFrom('odrers.shop:8080', world.options({ allowAddresses: ['loopback'] })),
    waitTimeoutMs: 600_000,
    startTimeoutMs: 600_000,
  });
  const messages = new Set<string>();
  for (let request = 0; request < 3; request++) {
    const error = await dispatcher.request({ path: '/', method: 'GET' }).then(
      () => undefined,
      (reason: unknown) => reason as Error & { readonly code: string },
    );
    expect(error?.code).toBe('EVENKEEL_NO_ENDPOINTS');
    messages.add(String(error?.message));
  }
  expect([...messages]).toEqual([
    expect.stringMatching(
      /^odrers\.shop:8080: it has no endpoint; DNS has no address for odrers\.shop\.svc\.cluster\.local\.: .*is the namespace shop right\?; EndpointSlices are not watched: .*in the namespace shop.*403/,
    ),
  ]);
});
