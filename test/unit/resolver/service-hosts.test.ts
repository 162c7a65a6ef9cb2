import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { HostsFile } from '../../../src/resolver/hosts-file.js';
import { ServiceHosts, type ServiceHostsOptions } from '../../../src/resolver/service-hosts.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeDnsClient } from '../../support/fixtures/fake-dns-client.js';
import { until } from '../../support/until.js';

const orders = 'orders.shop.svc.cluster.local.';

class Fixture {
  readonly clock: FakeClock = new FakeClock(0);
  readonly dns: FakeDnsClient = new FakeDnsClient();
  readonly hosts: ServiceHosts;

  constructor(options: Partial<ServiceHostsOptions> = {}) {
    this.hosts = new ServiceHosts({
      lookupTimeoutMs: 2_000,
      clock: this.clock,
      ...options,
      dns: { clusterDomain: 'cluster.local', namespace: 'web', client: () => this.dns, ...options.dns },
    });
  }

  isService(host: string): boolean | Promise<boolean> {
    return this.hosts.isService(new URL(`http://${host}`));
  }
}

const silent = new Promise<never>(() => {});
const inPod = 'search web.svc.corp.example svc.corp.example corp.example\n';

it.each([
  ['orders.shop', orders],
  ['orders.shop.', orders],
  ['orders.shop.svc', orders],
  ['orders.shop.svc.', orders],
  ['orders.shop.svc.cluster.local', orders],
  ['ORDERS.shop.svc.cluster.local.:8080', orders],
  ['orders', 'orders.web.svc.cluster.local.'],
  ['orders.shop.svc.clusterset.local', 'orders.shop.svc.clusterset.local.'],
])('%s is a Service if %s exists', async (host, name) => {
  const fixture = new Fixture();
  expect(await fixture.isService(host)).toBe(false);
  expect(fixture.dns.asked).toEqual([`A ${name}`]);
  const other = new Fixture();
  other.dns.answers[`A ${name}`] = ['10.0.0.1'];
  expect(await other.isService(host)).toBe(true);
  expect(other.hosts.nameOf(new URL(`http://${host}`))).toBe(name);
});

describe('a host of two labels that also is a pod of the own namespace', () => {
  const service = 'web-0.web.svc.cluster.local.';
  const pod = 'web-0.web.shop.svc.cluster.local.';
  const inShop = (answers: Record<string, string[] | string>): Fixture => {
    const fixture = new Fixture({ dns: { namespace: 'shop' } });
    Object.assign(fixture.dns.answers, answers);
    return fixture;
  };
  const both = { [`A ${service}`]: ['10.0.9.9'], [`A ${pod}`]: ['10.0.0.1'] };

  it.each(['web-0.web', 'WEB-0.web:8080', 'web-0.web.'])(
    '%s is left alone, as its search list means the pod',
    async (host) => {
      const fixture = inShop(both);
      expect(await fixture.isService(host)).toBe(false);
      expect(fixture.dns.asked).toEqual([`A ${service}`, `A ${pod}`]);
      expect(fixture.hosts.snapshot()).toEqual([
        { name: service, service: true, trouble: 'web-0.web is a pod of this namespace, and left alone' },
      ]);
    },
  );

  it('stays left alone while the pod restarts', async () => {
    const fixture = inShop(both);
    expect(await fixture.isService('web-0.web')).toBe(false);
    delete fixture.dns.answers[`A ${pod}`];
    await fixture.clock.advanceAsync(3_600_000);
    expect(await fixture.isService('web-0.web')).toBe(false);
  });

  it.each(['web-0.web.svc', 'web-0.web.svc.cluster.local'])(
    '%s is the Service: no search list reads it otherwise',
    async (host) => {
      const fixture = inShop(both);
      expect(await fixture.isService('web-0.web')).toBe(false);
      expect(await fixture.isService(host)).toBe(true);
      expect(await fixture.isService('web-0.web')).toBe(false);
    },
  );

  it('is the Service if there is no such pod', async () => {
    const fixture = inShop({ [`A ${service}`]: ['10.0.9.9'] });
    expect(await fixture.isService('web-0.web')).toBe(true);
  });

  it('a pod with an IPv6 address counts, too', async () => {
    const fixture = inShop({ [`A ${service}`]: ['10.0.9.9'], [`A ${pod}`]: 'ENODATA', [`AAAA ${pod}`]: ['fd00::1'] });
    expect(await fixture.isService('web-0.web')).toBe(false);
  });

  it('is left alone while DNS does not say whether there is one', async () => {
    const fixture = inShop({ [`A ${service}`]: ['10.0.9.9'], [`A ${pod}`]: 'ESERVFAIL' });
    expect(await fixture.isService('web-0.web')).toBe(false);
    delete fixture.dns.answers[`A ${pod}`];
    await fixture.clock.advanceAsync(5_000);
    expect(fixture.isService('web-0.web')).toBe(false);
    await fixture.clock.advanceAsync(0);
    expect(fixture.isService('web-0.web')).toBe(true);
  });

  it('is the Service where the option says so', async () => {
    const fixture = new Fixture({ services: ['web-0.web'], dns: { namespace: 'shop' } });
    Object.assign(fixture.dns.answers, both);
    expect(await fixture.isService('web-0.web')).toBe(true);
  });
});

it.each([
  '127.0.0.1',
  '[::1]:8080',
  'localhost',
  'api.localhost',
  'api.example.com',
  'api.example.com.',
  'orders.',
  'pod-0.mysql.shop.svc.cluster.local',
  'a..b',
  '-x.y',
])('%s is not a Service, without a query', (host) => {
  const fixture = new Fixture();
  expect(fixture.isService(host)).toBe(false);
  expect(fixture.dns.asked).toEqual([]);
});

it.each([
  'orders.shop.svc.evil.example',
  'orders.shop.svc.evil.example.',
  'orders.shop.svc.cluster.local.evil.example',
  'orders.shop.svc.local',
])('%s is under a foreign domain: not a Service, without a query', async (host) => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${host.replace(/\.$/, '')}.`] = ['10.0.0.1'];
  expect(await fixture.isService(host)).toBe(false);
  expect(fixture.dns.asked).toEqual([]);
});

it("another domain is queried where it is configured: by the list, the function, or as the cluster's own", async () => {
  const host = 'orders.shop.svc.other.example';
  expect(await new Fixture({ services: [host] }).isService(host)).toBe(true);
  expect(await new Fixture({ services: () => true }).isService(host)).toBe(true);
  const own = new Fixture({ dns: { clusterDomain: 'Other.example' } });
  own.dns.answers[`A ${host}.`] = ['10.0.0.1'];
  expect(await own.isService(host)).toBe(true);
});

it('remembers Services longer than hosts that are not', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  expect(await fixture.isService('orders.shop')).toBe(true);
  for (let index = 0; index < 2_100; index++) await fixture.isService(`made-up-${index}.shop`);
  expect(fixture.hosts.snapshot()).toHaveLength(2_000);
  expect(fixture.isService('orders.shop')).toBe(true);
});

it('a Service with IPv6 addresses is found', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = 'ENODATA';
  fixture.dns.answers[`AAAA ${orders}`] = ['fd00::1'];
  expect(await fixture.isService('orders.shop')).toBe(true);
});

it('outside a cluster only names that are clearly Services are queried', async () => {
  const clusterFiles = { resolvConfPath: '/nowhere', namespacePath: '/nowhere' };
  const dns = new FakeDnsClient();
  const clock = new FakeClock(0);
  const hosts = new ServiceHosts({ lookupTimeoutMs: 1, clock, dns: { clusterFiles, client: () => dns } });
  for (const host of ['github.com', 'orders', 'orders.shop']) {
    expect(await hosts.isService(new URL(`http://${host}`)), host).toBe(false);
  }
  expect(dns.asked).toEqual([]);
  expect(await hosts.isService(new URL('http://orders.shop.svc.cluster.local'))).toBe(false);
  expect(dns.asked).toEqual([`A ${orders}`]);
});

it('reads the domain and the namespace of its pod', async () => {
  const folder = await mkdtemp(`${(await import('node:os')).tmpdir()}/evenkeel-`);
  const resolvConfPath = `${folder}/resolv.conf`;
  await writeFile(resolvConfPath, inPod);
  const dns = new FakeDnsClient();
  const clusterFiles = { resolvConfPath, namespacePath: '/nowhere' };
  const hosts = new ServiceHosts({
    lookupTimeoutMs: 1_000,
    clock: new FakeClock(0),
    dns: { clusterFiles, client: () => dns },
  });
  await hosts.isService(new URL('http://orders'));
  await hosts.isService(new URL('http://github.com'));
  expect(dns.asked).toEqual(['A orders.web.svc.corp.example.', 'A github.com.svc.corp.example.']);
  await rm(folder, { recursive: true });
});

it('callers at the same time share one query, whatever spelling they use', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  await fixture.isService('warm.up');
  const verdicts = ['orders.shop', 'orders.shop.svc', 'orders.shop'].map((host) => fixture.isService(host));
  expect(await Promise.all(verdicts)).toEqual([true, true, true]);
  const asked = ['A warm.up.svc.cluster.local.', `A ${orders}`, 'A orders.shop.web.svc.cluster.local.'];
  expect(fixture.dns.asked).toEqual(asked);
  expect(fixture.isService('orders.shop')).toBe(true);
  await fixture.clock.advanceAsync(3_600_000);
  expect(fixture.isService('orders.shop')).toBe(true);
  expect(fixture.dns.asked).toHaveLength(3);
});

it('"no" holds for 30 s, and is queried again while nobody waits', async () => {
  const fixture = new Fixture();
  expect(await fixture.isService('orders.shop')).toBe(false);
  await fixture.clock.advanceAsync(29_999);
  expect(fixture.isService('orders.shop')).toBe(false);
  expect(fixture.dns.asked).toHaveLength(1);
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  await fixture.clock.advanceAsync(1);
  expect(fixture.isService('orders.shop')).toBe(false);
  expect(fixture.dns.asked).toHaveLength(2);
  await fixture.clock.advanceAsync(0);
  expect(fixture.isService('orders.shop')).toBe(true);
});

it('sends no queries on its own', async () => {
  const fixture = new Fixture();
  await fixture.isService('orders.shop');
  await fixture.clock.advanceAsync(3_600_000);
  expect(fixture.dns.asked).toHaveLength(1);
});

it('whoever waits for a host is called once it is a Service, and no more queries are sent', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = 'ESERVFAIL';
  const url = new URL('http://orders.shop:50051');
  expect(await fixture.hosts.isService(url)).toBe(false);
  const found = vi.fn();
  fixture.hosts.whenService(url, found);
  await fixture.clock.advanceAsync(60_000);
  expect(found).not.toHaveBeenCalled();
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  await fixture.clock.advanceAsync(40_000);
  expect(found).toHaveBeenCalledOnce();
  const asked = fixture.dns.asked.length;
  await fixture.clock.advanceAsync(3_600_000);
  expect([found.mock.calls.length, fixture.dns.asked.length]).toEqual([1, asked]);
});

it('whoever waits no longer is not called, and sends no queries', async () => {
  const fixture = new Fixture();
  const url = new URL('http://orders.shop:50051');
  expect(await fixture.hosts.isService(url)).toBe(false);
  const found = vi.fn();
  fixture.hosts.whenService(url, found)();
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  await fixture.clock.advanceAsync(3_600_000);
  expect(found).not.toHaveBeenCalled();
  expect(fixture.dns.asked).toHaveLength(1);
});

it.each([
  ['a host that cannot be a Service', 'api.example.com', {}],
  ['a host that a list leaves out', 'orders.shop', { services: ['stock.shop'] }],
])('nobody waits for %s', async (_what, host, options) => {
  const fixture = new Fixture(options);
  await fixture.hosts.isService(new URL(`http://${host}`));
  fixture.hosts.whenService(new URL(`http://${host}`), () => {});
  expect(fixture.clock.timers).toBe(0);
});

it("whoever waits does not hear that the application's function fails", async () => {
  let isBroken = false;
  const services = (): boolean | undefined => {
    if (isBroken) throw new Error('broken');
    return undefined;
  };
  const fixture = new Fixture({ services });
  expect(await fixture.isService('orders.shop')).toBe(false);
  const found = vi.fn();
  fixture.hosts.whenService(new URL('http://orders.shop'), found);
  isBroken = true;
  await fixture.clock.advanceAsync(60_000);
  expect(found).not.toHaveBeenCalled();
  expect(fixture.clock.timers).toBe(0);
});

it.each(['ESERVFAIL', 'EREFUSED', 'ETIMEOUT'])(
  '%s: the host is not a Service for now, and queried again 5 s later',
  async (code) => {
    const fixture = new Fixture();
    fixture.dns.answers[`A ${orders}`] = code;
    expect(await fixture.isService('orders.shop')).toBe(false);
    expect(fixture.hosts.snapshot()).toEqual([
      { name: orders, service: false, trouble: expect.stringContaining(code) },
    ]);
    fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
    await fixture.clock.advanceAsync(4_999);
    expect(fixture.isService('orders.shop')).toBe(false);
    expect(fixture.dns.asked).toHaveLength(1);
    await fixture.clock.advanceAsync(1);
    expect(fixture.isService('orders.shop')).toBe(false);
    await fixture.clock.advanceAsync(0);
    expect(fixture.isService('orders.shop')).toBe(true);
    expect(fixture.hosts.snapshot()).toEqual([{ name: orders, service: true }]);
  },
);

it('no answer: callers get "no" after the timeout, the query is cancelled, and nobody waits again', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = silent;
  await fixture.isService('warm.up');
  const verdict = fixture.isService('orders.shop');
  expect(fixture.clock.referencedTimers).toBe(1);
  let told: boolean | undefined;
  void Promise.resolve(verdict).then((answer) => {
    told = answer;
  });
  await fixture.clock.advanceAsync(1_999);
  expect(told).toBe(undefined);
  await fixture.clock.advanceAsync(1);
  expect(told).toBe(false);
  expect(fixture.dns.cancelled).toBe(1);
  await fixture.clock.advanceAsync(5_000);
  expect(fixture.isService('orders.shop')).toBe(false);
  expect([fixture.clock.timers, fixture.clock.referencedTimers]).toEqual([1, 0]);
  expect(fixture.dns.asked.filter((question) => question === `A ${orders}`)).toHaveLength(2);
  await fixture.clock.advanceAsync(10_000);
  expect(fixture.hosts.snapshot()).toContainEqual({ name: orders, service: false, trouble: expect.any(String) });
});

it('a client that cannot be created, or ignores being cancelled, does no harm', async () => {
  const broken = new Fixture({
    dns: {
      client: () => {
        throw new Error('no name servers');
      },
    },
  });
  expect(await broken.isService('orders.shop')).toBe(false);
  expect(broken.hosts.snapshot()).toEqual([{ name: orders, service: false, trouble: 'no name servers' }]);
  let asked = false;
  const deaf = new Fixture({
    dns: {
      client: () => ({
        resolve4: () => {
          asked = true;
          return silent;
        },
        resolve6: () => silent,
        resolveSrv: () => silent,
        cancel: () => {},
      }),
    },
  });
  const verdict = deaf.isService('orders.shop');
  await until('it is asked', () => asked);
  await deaf.clock.advanceAsync(2_000);
  expect(await verdict).toBe(false);
});

it('10,000 hosts: at most 100 queries at once, at most 2,000 hosts remembered', async () => {
  const fixture = new Fixture();
  await fixture.isService('warm.up');
  const verdicts = Array.from({ length: 10_000 }, (_, index) => fixture.isService(`host-${index}.example`));
  expect(verdicts.filter((verdict) => verdict === false)).toHaveLength(9_900);
  expect(await Promise.all(verdicts)).not.toContain(true);
  expect(fixture.dns.peak).toBe(100);
  // The warm-up and those that were asked about.
  expect(fixture.hosts.snapshot()).toHaveLength(101);
  for (let index = 0; index < 10_000; index++) await fixture.isService(`host-${index}.example`);
  expect(fixture.hosts.snapshot()).toHaveLength(2_000);
});

it('a Service that was forgotten is queried again', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  expect(await fixture.isService('orders.shop')).toBe(true);
  fixture.hosts.forget(orders);
  delete fixture.dns.answers[`A ${orders}`];
  expect(await fixture.isService('orders.shop')).toBe(false);
});

it('closed: waiting and later callers get "no"', async () => {
  const fixture = new Fixture();
  fixture.dns.answers[`A ${orders}`] = silent;
  await fixture.isService('warm.up');
  const verdict = fixture.isService('orders.shop');
  await fixture.clock.advanceAsync(0);
  fixture.hosts.close();
  expect(await verdict).toBe(false);
  expect(fixture.isService('orders.shop')).toBe(false);
  expect(fixture.hosts.snapshot()).toEqual([]);
});

it('a list: these and no others, in every spelling, without a query', async () => {
  const fixture = new Fixture({ services: ['Orders.shop', 'stock', 'legacy.example.com'] });
  for (const host of ['orders.shop', 'orders.shop.svc.cluster.local.', 'stock.web', 'legacy.example.com']) {
    expect(await fixture.isService(host), host).toBe(true);
  }
  for (const host of ['stock.shop', 'billing.shop', 'orders.shop.svc.other.local', '10.0.0.1', 'localhost']) {
    expect(await fixture.isService(host), host).toBe(false);
  }
  expect(fixture.dns.asked).toEqual([]);
});

it('a function: true and false decide, undefined leaves it to DNS', async () => {
  const seen: string[] = [];
  const fixture = new Fixture({
    services: (origin) => {
      seen.push(origin.origin);
      return { legacy: false, orders: true }[origin.hostname.split('.')[0] as string];
    },
  });
  expect(fixture.isService('legacy.shop')).toBe(false);
  expect(await fixture.isService('orders.shop:8080')).toBe(true);
  expect(await fixture.isService('billing.shop')).toBe(false);
  expect(fixture.dns.asked).toEqual(['A billing.shop.svc.cluster.local.']);
  expect(seen).toEqual(['http://legacy.shop', 'http://orders.shop:8080', 'http://billing.shop']);
});

it('a function that returns a promise is refused, since that would mean yes', () => {
  const fixture = new Fixture({ services: (async () => false) as never });
  expect(() => fixture.isService('orders.shop')).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
});

it.each([
  [['stock', 'http://orders.shop'], 'services[1] must be a host name such as orders.shop, got "http://orders.shop"'],
  [['orders.shop:8080'], 'services[0] must be a host name such as orders.shop, got "orders.shop:8080"'],
  ['orders.shop', 'services must be a list of host names or a function, got "orders.shop"'],
])('names what is wrong with %j', (services, message) => {
  expect(() => new Fixture({ services: services as never })).toThrow(message);
});

it.each([[3], ['orders.shop'], [[3]], [['http://orders.shop']], [{}]])('refuses %j for services', (services) => {
  expect(() => new Fixture({ services: services as never })).toThrow(
    expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('services') }),
  );
});

it('names in /etc/hosts are left to it, as they are written or completed by the search list, and listed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'evenkeel-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const hostsPath = join(folder, 'hosts');
  const resolvConfPath = join(folder, 'resolv.conf');
  await writeFile(hostsPath, '127.0.0.1 localhost\n127.0.8.9\tOrders.shop  stub.web.svc.cluster.local # pay.shop\n');
  await writeFile(resolvConfPath, 'search web.svc.cluster.local svc.cluster.local cluster.local\n');
  const clusterFiles = { hostsPath, resolvConfPath };
  const fixture = new Fixture({ dns: { clusterFiles } });
  for (const name of [orders, 'stub.web.svc.cluster.local.', 'pay.shop.svc.cluster.local.']) {
    fixture.dns.answers[`A ${name}`] = ['10.0.0.1'];
  }
  for (const host of ['orders.shop', 'ORDERS.shop.', 'stub', 'stub.web', 'stub.web.svc.cluster.local']) {
    expect(await fixture.isService(host), host).toBe(false);
  }
  expect(fixture.dns.asked).toEqual([]);
  expect(fixture.hosts.snapshot()).toContainEqual({ name: 'stub', service: false, trouble: 'it is in /etc/hosts' });
  // Another spelling that is in the file in no form, and a name in a comment, are asked for in DNS, as without evenkeel.
  expect(await fixture.isService('orders.shop.svc.cluster.local')).toBe(true);
  expect(await fixture.isService('pay.shop')).toBe(true);

  const written = new Fixture({ services: ['orders.shop'], dns: { clusterFiles } });
  expect(await written.isService('orders.shop'), 'the user names it').toBe(true);
  const ruled = new Fixture({ services: () => true, dns: { clusterFiles } });
  expect(await ruled.isService('orders.shop'), 'the user names it').toBe(true);

  await writeFile(hostsPath, '127.0.0.1 localhost\n');
  fixture.clock.advance(5_000);
  await until('the file was read again', () => fixture.isService('orders.shop') !== false);
  expect(await fixture.isService('orders.shop')).toBe(true);
});

it('a hosts file that cannot be read for a while keeps its names, and one that is deleted has none', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'evenkeel-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const hostsPath = join(folder, 'hosts');
  await writeFile(hostsPath, '127.0.8.9 orders.shop stock.shop\n');
  const file = new HostsFile(new FakeClock(), { hostsPath, resolvConfPath: '/nowhere' });
  await file.read();
  expect(file.has('orders.shop')).toBe(true);
  await rm(hostsPath);
  await mkdir(hostsPath);
  await file.read();
  expect(file.has('orders.shop')).toBe(true);
  await rm(hostsPath, { recursive: true });
  await writeFile(hostsPath, '127.0.8.9 stock.shop\n');
  await file.read();
  expect([file.has('orders.shop'), file.has('stock.shop')]).toEqual([false, true]);
  await rm(hostsPath);
  await file.read();
  expect(file.has('stock.shop')).toBe(false);
});

it('a hosts file that cannot be read is an empty one', async () => {
  const fixture = new Fixture({ dns: { clusterFiles: { hostsPath: '/nowhere' } } });
  fixture.dns.answers[`A ${orders}`] = ['10.0.0.1'];
  expect(await fixture.isService('orders.shop')).toBe(true);
});
