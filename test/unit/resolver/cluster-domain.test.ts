import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  absoluteName,
  checkHost,
  isLocalhost,
  parseServiceHost,
  plainName,
  readClusterNames,
  searchList,
} from '../../../src/resolver/cluster-domain.js';

describe('searchList', () => {
  it.each([
    ['search shop.svc.cluster.local svc.cluster.local', ['shop.svc.cluster.local', 'svc.cluster.local']],
    ['nameserver 10.96.0.10\nsearch\tA.example.  b.example\noptions ndots:5', ['a.example', 'b.example']],
    ['search one\nsearch two', ['two']],
    ['search one\ndomain two', ['two']],
    ['# search no\n; search no', []],
    ['', []],
  ])('%j', (text, expected) => {
    expect(searchList(text)).toEqual(expected);
  });
});

describe('readClusterNames', () => {
  let folder: string;
  const path = (name: string): string => join(folder, name);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'evenkeel-'));
    await writeFile(path('pod'), 'search shop.svc.k8s.example svc.k8s.example k8s.example\nnameserver 10.96.0.10\n');
    await writeFile(path('laptop'), 'search lan\nnameserver 192.168.0.1\n');
    await writeFile(path('namespace'), 'billing\n');
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('takes domain and namespace from a pod’s search line', async () => {
    const names = await readClusterNames({ resolvConfPath: path('pod'), namespacePath: path('none') });
    expect(names).toEqual({ domain: 'k8s.example', namespace: 'shop' });
  });

  it('prefers the namespace file to the search line', async () => {
    const names = await readClusterNames({ resolvConfPath: path('pod'), namespacePath: path('namespace') });
    expect(names.namespace).toBe('billing');
  });

  it('falls back to cluster.local and no namespace outside a cluster', async () => {
    for (const resolvConfPath of [path('laptop'), path('none')]) {
      const names = await readClusterNames({ resolvConfPath, namespacePath: path('none') });
      expect(names).toEqual({ domain: 'cluster.local', namespace: undefined });
    }
  });
});

describe('parseServiceHost', () => {
  it.each([
    ['orders', { service: 'orders', namespace: undefined, domain: undefined }],
    ['Orders.Shop', { service: 'orders', namespace: 'shop', domain: undefined }],
    ['orders.shop.svc', { service: 'orders', namespace: 'shop', domain: undefined }],
    ['orders.shop.svc.cluster.local', { service: 'orders', namespace: 'shop', domain: 'cluster.local' }],
    ['orders.shop.svc.cluster.local.', { service: 'orders', namespace: 'shop', domain: 'cluster.local' }],
  ])('%s is a Service', (host, expected) => {
    expect(parseServiceHost(host)).toEqual(expected);
  });

  it.each([
    'github.com.',
    'localhost',
    '10.0.0.1',
    '::1',
    'api.example.com',
    'orders-0.orders.shop',
    'orders.shop.svc.',
    'a..b',
    '',
  ])('%j is not a Service', (host) => {
    expect(parseServiceHost(host)).toBeUndefined();
  });
});

describe('absoluteName (D1)', () => {
  const names = { domain: 'k8s.example', namespace: 'shop' };
  it.each([
    ['orders', 'orders.shop.svc.k8s.example.'],
    ['orders.billing', 'orders.billing.svc.k8s.example.'],
    ['orders.billing.svc', 'orders.billing.svc.k8s.example.'],
    ['orders.billing.svc.other.example', 'orders.billing.svc.other.example.'],
    ['orders-0.orders.shop', 'orders-0.orders.shop.'],
    ['api.example.com', 'api.example.com.'],
    ['GitHub.com.', 'github.com.'],
  ])('%s → %s', (host, expected) => {
    expect(absoluteName(host, names)).toBe(expected);
  });

  it('leaves a single label alone where no namespace is known', () => {
    expect(absoluteName('db', { domain: 'cluster.local', namespace: undefined })).toBe('db.');
  });
});

describe('plainName', () => {
  const nowhere = { domain: 'cluster.local', namespace: undefined };
  it.each([
    ['orders.shop', 'orders.shop.'],
    ['db', 'db.'],
    ['GitHub.com.', 'github.com.'],
    ['api.example.com', 'api.example.com.'],
    ['orders.shop.svc', 'orders.shop.svc.cluster.local.'],
    ['orders.shop.svc.cluster.local', 'orders.shop.svc.cluster.local.'],
  ])('outside a cluster %s is queried as %s', (host, expected) => {
    expect(plainName(host, nowhere, false)).toBe(expected);
  });

  it('inside a cluster a name of two labels can only be a Service', () => {
    expect(plainName('orders.shop', nowhere, true)).toBe('orders.shop.svc.cluster.local.');
  });
});

it('isLocalhost accepts the names of RFC 6761', () => {
  expect(['localhost', 'LOCALHOST.', 'a.localhost'].every(isLocalhost)).toBe(true);
  expect(['localhost.example', 'notlocalhost', ''].some(isLocalhost)).toBe(false);
});

it('checkHost refuses names that DNS cannot be queried for', () => {
  expect(checkHost('host', 'Orders.shop.')).toBe('orders.shop.');
  for (const bad of ['', '.', 'a b', 'a..b', '-a', 'a/b', `${'x'.repeat(64)}.y`, 'a:80', 7, undefined]) {
    expect(() => checkHost('host', bad)).toThrow('host must be a host name or an IP address');
  }
});
