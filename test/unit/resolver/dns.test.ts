import { beforeEach, describe, expect, it } from 'vitest';
import { type DnsOptions, dns } from '../../../src/resolver/dns.js';
import { lookUp } from '../../../src/resolver/dns-lookup.js';
import { lookupFamilies } from '../../../src/resolver/host-families.js';
import type { Resolution } from '../../../src/resolver/resolver.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeDnsClient } from '../../support/fixtures/fake-dns-client.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

const orders = 'orders.shop.svc.cluster.local';
const srv = `SRV _http._tcp.${orders}.`;
let clock: FakeClock;
let listener: RecordingListener;
let client: FakeDnsClient;
let clients: number;
let warnings: string[];
let resolution: Resolution;

async function watch(options: Partial<DnsOptions> = {}): Promise<void> {
  const factory = (): FakeDnsClient => {
    clients++;
    return client;
  };
  const resolver = dns({
    host: orders,
    ...(options.srv === undefined && { port: 8080 }),
    client: factory,
    ...options,
  } as DnsOptions);
  resolution = resolver.watch(listener, {
    clock,
    rng: { next: () => 0 },
    observer: { warned: ({ message }) => warnings.push(message) },
  });
  // Questions that follow from answers settle one after the other.
  for (let turn = 0; turn < 5; turn++) await settle();
}

const record = (name: string, port = 8080, more: object = {}) => ({ name, port, priority: 0, weight: 50, ...more });

beforeEach(() => {
  clock = new FakeClock(0);
  listener = new RecordingListener();
  client = new FakeDnsClient();
  clients = 0;
  warnings = [];
});

describe('unusable records', () => {
  it('an SRV record with port 0 is skipped, and the others count', async () => {
    client.answers[srv] = [record('p0.example', 0, { priority: 0 }), record('p1.example', 80, { priority: 1 })];
    client.answers['A p1.example.'] = ['10.0.0.1'];
    await watch({ srv: 'http' });
    expect(listener.keys).toBe('10.0.0.1:80');
    expect(client.asked).not.toContain('A p0.example.');
  });

  it('SRV records that all have port 0 leave the last set as it is', async () => {
    client.answers[srv] = [record('p1.example')];
    client.answers['A p1.example.'] = ['10.0.0.1'];
    await watch({ srv: 'http' });
    client.answers[srv] = [record('p1.example', 0), record('p2.example', 0)];
    for (let round = 0; round < 5; round++) await clock.advanceAsync(5_000);
    expect(listener.keys).toBe('10.0.0.1:8080');
    expect(listener.events.at(-1)).toContain('no record for SRV');
    client.answers[srv] = [record('p1.example', 80, { priority: Number.NaN })];
    for (let round = 0; round < 5; round++) await clock.advanceAsync(5_000);
    expect(listener.keys).toBe('10.0.0.1:8080');
    // "Not here" (RFC 2782) has port 0, too, and does mean that there are none.
    client.answers[srv] = [record('.', 0)];
    for (let round = 0; round < 5; round++) await clock.advanceAsync(5_000);
    expect(listener.keys).toBe('');
  });

  it('an answer with many records that each name many addresses is refused', async () => {
    client.answers[srv] = Array.from({ length: 200 }, (_, index) => record(`p${index}.example`, 80 + index));
    const many = Array.from({ length: 100 }, (_, index) => `10.0.0.${index}`);
    for (let index = 0; index < 200; index++) client.answers[`A p${index}.example.`] = many;
    await watch({ srv: 'http' });
    for (let turn = 0; turn < 100; turn++) await settle();
    expect(listener.events).toEqual([expect.stringContaining('more than 10000 addresses')]);
  });
});

describe('addresses', () => {
  it('D1: queries one absolute name, A only while there are A records', async () => {
    client.answers[`A ${orders}.`] = ['10.0.0.2', '10.0.0.1'];
    await watch();
    expect(client.asked).toEqual([`A ${orders}.`]);
    expect(listener.keys).toBe('10.0.0.1:8080 10.0.0.2:8080');
  });

  it('S3: queries AAAA only when the name has no A record', async () => {
    client.answers[`A ${orders}.`] = 'ENODATA';
    client.answers[`AAAA ${orders}.`] = ['fd00::1'];
    await watch();
    expect(listener.keys).toBe('[fd00::1]:8080');
    expect(client.asked).toEqual([`A ${orders}.`, `AAAA ${orders}.`]);
  });

  it('S3: on a host with only IPv6 queries A only when the name has no AAAA record', async () => {
    const name = `${orders}.`;
    const ask = async (): Promise<string[]> => {
      const question = { name, port: 80, srv: undefined, families: lookupFamilies(undefined, 'IPv6') };
      return (await lookUp(client, question)).targets.map(({ address }) => address);
    };
    client.answers[`AAAA ${name}`] = ['fd00::1'];
    client.answers[`A ${name}`] = ['10.0.0.1'];
    expect(await ask()).toEqual(['fd00::1']);
    client.answers[`AAAA ${name}`] = 'ENODATA';
    expect(await ask()).toEqual(['10.0.0.1']);
    client.answers[`AAAA ${name}`] = 'ENOTFOUND';
    expect(await ask()).toEqual([]);
  });

  it('S3: on a host with only IPv6 queries the AAAA records of SRV targets first', async () => {
    client.answers[srv] = [record('p1.example', 80), record('p2.example', 81)];
    client.answers['AAAA p1.example.'] = ['fd00::1'];
    client.answers['A p1.example.'] = ['10.0.0.1'];
    const question = { name: `${orders}.`, port: undefined, srv: 'http', families: lookupFamilies(undefined, 'IPv6') };
    const { targets } = await lookUp(client, question);
    expect(targets.map(({ address }) => address)).toEqual(['fd00::1']);
  });

  it('S3: uses only the requested family', async () => {
    client.answers[`AAAA ${orders}.`] = ['fd00::1'];
    await watch({ family: 6 });
    expect(client.asked).toEqual([`AAAA ${orders}.`]);
    client.answers[`A ${orders}.`] = 'ENODATA';
    client.asked.length = 0;
    await watch({ family: 4 });
    expect(client.asked).toEqual([`A ${orders}.`]);
  });

  it('D6: NXDOMAIN ends the lookup for all families, and a failed AAAA is a failure, not an empty set', async () => {
    await watch();
    expect(client.asked).toEqual([`A ${orders}.`]);
    client.answers[`A ${orders}.`] = 'ENODATA';
    client.answers[`AAAA ${orders}.`] = 'ESERVFAIL';
    await clock.advanceAsync(5_000);
    await clock.advanceAsync(5_000);
    expect(listener.events).toEqual([
      `fail DNS has no address for ${orders}.: there is no such Service, or none of its pods is ready; is the namespace shop right?`,
      `fail DNS has no answer for AAAA ${orders}.: the name server could not answer (ESERVFAIL)`,
    ]);
  });

  it('D4: queries again when the shortest TTL is over', async () => {
    client.answers[`A ${orders}.`] = [
      { address: '10.0.0.1', ttl: 30 },
      { address: '10.0.0.2', ttl: 9 },
    ];
    await watch();
    expect(clock.nextInMs).toBe(9_000);
  });

  it('D4: ignores records without a TTL (Node gives it for the first 256 only)', async () => {
    client.answers[`A ${orders}.`] = [{ address: '10.0.0.1', ttl: 9 }, { address: '10.0.0.2' }];
    await watch();
    expect(clock.nextInMs).toBe(9_000);
  });

  it.each(['ESERVFAIL', 'ETIMEOUT', 'EREFUSED', 'ECONNREFUSED', 'EBADRESP', 'EFORMERR'])(
    'D6: %s leaves the last set as it is, and the next lookup has a new client',
    async (code) => {
      client.answers[`A ${orders}.`] = ['10.0.0.1'];
      await watch();
      client.answers[`A ${orders}.`] = code;
      await clock.advanceAsync(60_000);
      expect(listener.keys).toBe('10.0.0.1:8080');
      expect(listener.events[1]).toContain(`(${code})`);
      expect(listener.events).toHaveLength(2);
      expect(clients).toBeGreaterThan(3);
    },
  );

  it('D8: cancels a lookup that takes longer than its deadline', async () => {
    client.answers[`A ${orders}.`] = new Promise(() => {});
    await watch();
    await clock.advanceAsync(4_999);
    expect(client.cancelled).toBe(0);
    await clock.advanceAsync(1);
    expect(client.cancelled).toBe(1);
    expect(listener.events).toEqual([`fail dns ${orders}:8080: no answer within 5000 ms`]);
    expect(client.peak).toBe(1);
  });

  it('close cancels the query and leaves no timer', async () => {
    client.answers[`A ${orders}.`] = new Promise(() => {});
    await watch();
    resolution.close();
    await settle();
    expect([client.cancelled, clock.timers, listener.events.length]).toEqual([1, 0, 0]);
  });
});

describe('SRV (D2)', () => {
  it('takes pod ports from SRV and, where all agree, the addresses from one query', async () => {
    client.answers[srv] = [record(`10-0-0-1.${orders}`), record(`10-0-0-2.${orders}`)];
    client.answers[`A ${orders}.`] = ['10.0.0.1', '10.0.0.2'];
    await watch({ srv: 'http' });
    expect(listener.keys).toBe('10.0.0.1:8080 10.0.0.2:8080');
    expect(client.asked).toEqual([srv, `A ${orders}.`]);
  });

  it('queries each target where ports differ, at most 16 at once', async () => {
    const count = 40;
    const targets = Array.from({ length: count }, (_, index) => `p${index}.${orders}`);
    client.answers[srv] = targets.map((target, index) => record(target, index < 20 ? 8080 : 9090));
    for (const [index, target] of targets.entries()) client.answers[`A ${target}.`] = [`10.0.1.${index}`];
    await watch({ srv: 'http' });
    expect(listener.endpoints).toHaveLength(count);
    expect(listener.endpoints?.filter((endpoint) => endpoint.port === 9090)).toHaveLength(20);
    expect(listener.endpoints?.[0]?.name).toMatch(/^p\d+\.orders/);
    expect(client.peak).toBe(16);
  });

  it('queries each target where not every pod has the port', async () => {
    client.answers[srv] = [record(`a.${orders}`)];
    client.answers[`A ${orders}.`] = ['10.0.0.1', '10.0.0.2'];
    client.answers[`A a.${orders}.`] = ['10.0.0.2'];
    await watch({ srv: 'http' });
    expect(listener.keys).toBe('10.0.0.2:8080');
  });

  it('queries AAAA for each target when no target has an A record, and skips targets that are gone', async () => {
    client.answers[srv] = [record(`a.${orders}`, 1), record(`b.${orders}`, 2), record(`gone.${orders}`, 1)];
    client.answers[`A a.${orders}.`] = 'ENODATA';
    client.answers[`A b.${orders}.`] = 'ENODATA';
    client.answers[`AAAA a.${orders}.`] = ['fd00::1'];
    client.answers[`AAAA b.${orders}.`] = ['fd00::2'];
    await watch({ srv: 'http' });
    expect(listener.keys).toBe('[fd00::1]:1 [fd00::2]:2');
  });

  it('D3: fails the whole lookup if one target cannot be looked up', async () => {
    client.answers[srv] = [record('a.example'), record('b.example')];
    client.answers['A a.example.'] = ['10.0.0.1'];
    client.answers['A b.example.'] = 'ESERVFAIL';
    await watch({ srv: 'http' });
    expect(listener.keys).toBeUndefined();
    expect(listener.events[0]).toContain('A b.example.: the name server could not answer');
  });

  it('D3: sends no further queries for a lookup that has failed', async () => {
    const targets = Array.from({ length: 200 }, (_, index) => `p${index}.example`);
    client.answers[srv] = targets.map((target) => record(target));
    for (const target of targets) client.answers[`A ${target}.`] = 'ESERVFAIL';
    await watch({ srv: 'http' });
    expect(client.asked.length).toBeLessThan(20);
  });

  it('RFC 2782: uses only the lowest priority, weights as given, and no target "."', async () => {
    client.answers[srv] = [
      record('a.example', 80, { priority: 1, weight: 3 }),
      record('b.example', 80, { priority: 1, weight: 0 }),
      record('far.example', 80, { priority: 2 }),
      record('', 80, { priority: 1 }),
    ];
    client.answers['A a.example.'] = ['10.0.0.1'];
    client.answers['A b.example.'] = ['10.0.0.2'];
    await watch({ srv: 'http' });
    expect(listener.endpoints?.map(({ key, weight }) => [key, weight])).toEqual([
      ['10.0.0.1:80', 3],
      ['10.0.0.2:80', 0.1],
    ]);
    expect(client.asked).not.toContain('A far.example.');
  });

  it('D10: falls back to addresses at the configured port after EFORMERR', async () => {
    client.answers[srv] = 'EFORMERR';
    client.answers[`A ${orders}.`] = ['10.0.0.1'];
    await watch({ srv: 'http', port: 7070 });
    expect(listener.keys).toBe('10.0.0.1:7070');
  });

  it('D10: falls back to the one port that SRV gave while its answer still fitted', async () => {
    client.answers[srv] = [record(`a.${orders}`, 9999)];
    client.answers[`A ${orders}.`] = ['10.0.0.1'];
    await watch({ srv: 'http' });
    client.answers[srv] = 'EFORMERR';
    client.answers[`A ${orders}.`] = ['10.0.0.1', '10.0.0.2'];
    await clock.advanceAsync(5_000);
    expect(listener.keys).toBe('10.0.0.1:9999 10.0.0.2:9999');
  });

  it('D10: fails after EFORMERR where no port is known', async () => {
    client.answers[srv] = 'EFORMERR';
    await watch({ srv: 'http' });
    expect(listener.events[0]).toContain('the answer is too large or malformed (EFORMERR)');
  });

  it('D7: takes NXDOMAIN for the SRV name as "no such records"', async () => {
    await watch({ srv: 'http' });
    await clock.advanceAsync(5_000);
    expect(listener.events).toEqual([
      `fail DNS has no SRV record http for ${orders}.: there is no such Service, or none of its pods is ready; is the namespace shop right?`,
      '∅',
    ]);
  });
});

describe('addresses that no pod has', () => {
  it('are refused and reported once, and the others are used', async () => {
    client.answers[`A ${orders}.`] = ['10.0.0.1', '127.0.0.1'];
    await watch();
    await clock.advanceAsync(20_000);
    expect(listener.keys).toBe('10.0.0.1:8080');
    expect(warnings).toEqual([
      `dns ${orders}:8080: refused 127.0.0.1 (loopback), which no pod can have; to allow it, set allowAddresses: ['loopback']`,
    ]);
  });

  it('are a failure when there are no others, so the last set stays', async () => {
    client.answers[`A ${orders}.`] = ['10.0.0.1'];
    await watch();
    client.answers[`A ${orders}.`] = ['169.254.169.254'];
    await clock.advanceAsync(30_000);
    expect(listener.keys).toBe('10.0.0.1:8080');
    expect(listener.events[1]).toContain('169.254.169.254 (link-local), which no pod can have');
  });

  it('are used if allowAddresses includes them', async () => {
    client.answers[`A ${orders}.`] = ['127.0.0.1'];
    await watch({ allowAddresses: ['loopback'] });
    expect(listener.keys).toBe('127.0.0.1:8080');
  });
});

describe('hosts that need no query', () => {
  it.each([
    ['10.0.0.1', undefined, '10.0.0.1:8080'],
    ['127.0.0.1', undefined, '127.0.0.1:8080'],
    ['fd00::1', undefined, '[fd00::1]:8080'],
    ['localhost', undefined, '127.0.0.1:8080'],
    ['localhost', 6, '[::1]:8080'],
  ] as const)('%s is used without a query', async (host, family, expected) => {
    await watch({ host, ...(family !== undefined && { family }) });
    expect(listener.keys).toBe(expected);
    expect(client.asked).toEqual([]);
  });

  it('need a port', () => {
    expect(() => dns({ host: '10.0.0.1', srv: 'http' })).toThrow(
      'port must be a port from 1 to 65535 where host is 10.0.0.1',
    );
  });
});

it('short names are completed with the configured domain and namespace', async () => {
  client.answers['A orders.shop.svc.k8s.example.'] = ['10.0.0.1'];
  const files = { resolvConfPath: '/nowhere', namespacePath: '/nowhere' };
  await watch({ host: 'orders', namespace: 'shop', clusterDomain: 'k8s.example', clusterFiles: files });
  await expect.poll(() => listener.keys).toBe('10.0.0.1:8080');
});

it('names what is wrong with an option', () => {
  const wrong = (options: object): (() => unknown) => {
    return () => dns({ host: 'orders.shop', port: 80, ...options });
  };
  expect(wrong({ host: 'orders shop' })).toThrow('host must be a host name or an IP address, got "orders shop"');
  expect(wrong({ host: undefined })).toThrow('host must be');
  expect(wrong({ port: 0 })).toThrow('port must be a port from 1 to 65535, got 0');
  expect(wrong({ port: undefined })).toThrow('port must be a port from 1 to 65535 unless srv is given');
  expect(wrong({ srv: '_http' })).toThrow('srv must be the name of a port, got "_http"');
  expect(wrong({ family: 5 })).toThrow('family must be 4 or 6, got 5');
  expect(wrong({ servers: ['nowhere'] })).toThrow("servers must be a list of at least one 'ip' or 'ip:port'");
  expect(wrong({ servers: [] })).toThrow('servers must be');
  expect(wrong({ intervalMs: 999 })).toThrow('intervalMs must be a number from 1000 to 30000');
  expect(wrong({ tries: 0 })).toThrow('tries must be a whole number from 1 to 10');
  expect(wrong({ allowAddresses: ['all'] })).toThrow('allowAddresses must be');
  expect(wrong({ ttl: 1 })).toThrow('dns has no option "ttl"');
});
