import { expect, it } from 'vitest';
import { resolverFrom } from '../../../src/resolver/target.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { FakeDnsClient } from '../../support/fixtures/fake-dns-client.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

const nowhere = { path: '/nowhere', env: {} };

function watch(target: string, client = new FakeDnsClient(), options: object = {}): RecordingListener {
  const listener = new RecordingListener();
  const resolver = resolverFrom(target, {
    dns: { client: () => client, clusterDomain: 'cluster.local', namespace: 'shop' },
    kubernetes: { inCluster: nowhere },
    ...options,
  });
  expect(resolver.name).toBe(target.startsWith('static:') ? target.replace(':', ' ') : target);
  resolver.watch(listener, { clock: new FakeClock(), rng: { next: () => 0 }, observer: {} });
  return listener;
}

it('returns a resolver as it is', () => {
  const resolver = new FakeResolver();
  expect(resolverFrom(resolver)).toBe(resolver);
  expect(() => resolverFrom(7 as never)).toThrow('target must be a resolver or a target string');
});

it('static: publishes the list', async () => {
  const listener = watch('static:10.0.0.1:80,10.0.0.2:81');
  await expect.poll(() => listener.keys).toBe('10.0.0.1:80 10.0.0.2:81');
});

it('dns: queries addresses for a port number, SRV records for a port name', async () => {
  const client = new FakeDnsClient();
  client.answers['A orders.shop.svc.cluster.local.'] = ['10.0.0.1', '10.0.0.2'];
  const byNumber = watch('dns:orders.shop:8080', client);
  await expect.poll(() => byNumber.keys).toBe('10.0.0.1:8080 10.0.0.2:8080');
  client.answers['SRV _http._tcp.orders.shop.svc.cluster.local.'] = [
    { name: 'a.orders.shop.svc.cluster.local', port: 9090, priority: 0, weight: 1 },
    { name: 'b.orders.shop.svc.cluster.local', port: 9090, priority: 0, weight: 1 },
  ];
  const byName = watch('dns:orders.shop:http', client);
  await expect.poll(() => byName.keys).toBe('10.0.0.1:9090 10.0.0.2:9090');
});

it('a plain address or localhost is one endpoint, without a query', async () => {
  const client = new FakeDnsClient();
  for (const [target, key] of [
    ['127.0.0.1:3000', '127.0.0.1:3000'],
    ['localhost:3000', '127.0.0.1:3000'],
    ['[::1]:3000', '[::1]:3000'],
  ] as const) {
    const listener = watch(target, client);
    await expect.poll(() => listener.keys).toBe(key);
  }
  expect(client.asked).toEqual([]);
});

it('a plain name outside a pod goes to DNS', async () => {
  const client = new FakeDnsClient();
  client.answers['A orders.shop.svc.cluster.local.'] = ['10.0.0.1', '10.0.0.2'];
  const listener = watch('orders.shop:8080', client);
  await expect.poll(() => listener.keys).toBe('10.0.0.1:8080 10.0.0.2:8080');
});

it('kubernetes: fails outside a pod, and says why', async () => {
  const listener = watch('kubernetes:orders.shop:http');
  await expect.poll(() => listener.errors[0]?.message).toContain('not in a pod');
  expect(listener.errors[0]?.permanent).toBe(true);
});

it('a requested family applies in every mode', async () => {
  const client = new FakeDnsClient();
  client.answers['AAAA orders.shop.svc.cluster.local.'] = ['fd00::1', 'fd00::2'];
  const listener = watch('orders.shop:8080', client, { family: 'IPv6' });
  await expect.poll(() => listener.keys).toBe('[fd00::1]:8080 [fd00::2]:8080');
  const local = watch('localhost:80', client, { family: 'IPv6' });
  await expect.poll(() => local.keys).toBe('[::1]:80');
});

it('names what is wrong with an option', () => {
  expect(() => resolverFrom('orders.shop:80', { port: 1 } as object)).toThrow('options has no option "port"');
  expect(() => resolverFrom('orders.shop:80', { dns: { host: 'x' } as object })).toThrow('dns has no option "host"');
  expect(() => resolverFrom('orders.shop:80', { connections: 0 })).toThrow('connections must be a whole number from 1');
  expect(() => resolverFrom('orders.shop:80', { connectionAgeMs: 10 })).toThrow('connectionAgeMs must be');
  expect(() => resolverFrom('static:10.0.0.1:80', { allowAddresses: ['x'] as never })).toThrow(
    'allowAddresses must be',
  );
  expect(() => resolverFrom('orders.shop:80', { family: 4 as never })).toThrow(
    "family must be 'IPv4' or 'IPv6', got 4",
  );
  expect(() => resolverFrom('orders.shop:80', { kubernetes: { port: 1 } as object })).toThrow(
    'kubernetes has no option "port"',
  );
  expect(() => resolverFrom('10.0.0.1:http')).toThrow('target must be an address and a port number');
});
