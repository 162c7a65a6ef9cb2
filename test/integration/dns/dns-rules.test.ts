import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DnsOptions } from 'evenkeel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDnsServer, type DnsServer } from '../../servers/index.js';
import { DnsWatch, ordersName } from '../../support/fixtures/dns-watch.js';
import { freePort } from '../../support/programs/free-port.js';

let server: DnsServer;
const watches: DnsWatch[] = [];

const watch = (options: Partial<DnsOptions> = {}): DnsWatch => {
  const started = new DnsWatch(server, options);
  watches.push(started);
  return started;
};
const addresses = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `10.1.${index >> 8}.${index & 255}`);
const pods = (count: number): { address: string }[] => addresses(count).map((address) => ({ address }));

beforeEach(async () => {
  // Some tests stop it for a while.
  server = await createDnsServer({ port: await freePort() });
});
afterEach(async () => {
  for (const started of watches.splice(0)) started.close();
  await server.close();
});

describe('headless DNS on the wire', () => {
  it('D1: a short name becomes one absolute query, completed from the files of the pod', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'evenkeel-'));
    const resolvConfPath = join(folder, 'resolv.conf');
    await writeFile(resolvConfPath, 'search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n');
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(1) });
    for (const host of ['orders', 'orders.shop', 'orders.shop.svc', ordersName, `${ordersName}.`]) {
      server.resetCounters();
      const one = watch({ host, clusterFiles: { resolvConfPath, namespacePath: '/nowhere' } });
      await one.looked();
      await expect.poll(() => one.listener.keys).toBe('10.1.0.0:8080');
      expect(server.queries).toEqual([{ name: ordersName, type: 'A', protocol: 'udp' }]);
    }
    await rm(folder, { recursive: true });
  });

  it('D2: only ready pods are used, or all that publishNotReadyAddresses shows', async () => {
    const service = { namespace: 'shop', name: 'orders', pods: [{ address: '10.0.0.1', ready: false }, ...pods(1)] };
    server.kubernetes.set(service);
    const one = watch();
    await one.looked();
    server.kubernetes.set({ ...service, publishNotReadyAddresses: true });
    await one.next();
    expect(one.events).toEqual(['10.1.0.0:8080', '10.0.0.1:8080 10.1.0.0:8080']);
  });

  it('D2: SRV gives the ports of the pods, equal or not', async () => {
    const service = { namespace: 'shop', name: 'orders', ports: [{ name: 'http', port: 8081 }], pods: pods(3) };
    server.kubernetes.set(service);
    const one = watch({ srv: 'http' });
    await one.next();
    expect(one.listener.keys).toBe('10.1.0.0:8081 10.1.0.1:8081 10.1.0.2:8081');
    expect(server.queries.filter((query) => query.type === 'A').map((query) => query.name)).toEqual([
      ordersName,
      ordersName,
    ]);
    server.zone.set('_http._tcp.db.example', {
      srv: [
        { target: 'one.example', port: 1 },
        { target: 'two.example', port: 2 },
      ],
    });
    server.zone.set('one.example', { a: ['10.0.0.1'] });
    server.zone.set('two.example', { a: ['10.0.0.2'] });
    const other = watch({ srv: 'http', host: 'db.example.' });
    await other.looked();
    expect(other.listener.keys).toBe('10.0.0.1:1 10.0.0.2:2');
  });

  it('D3: CNAMEs are followed; shuffled and repeated records are one set', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', externalName: 'db.example' });
    server.zone.set('db.example', { a: [...addresses(9), '10.1.0.3'] });
    const one = watch();
    for (let round = 0; round < 5; round++) await one.next();
    expect(one.events).toHaveLength(1);
    expect(one.listener.endpoints).toHaveLength(9);
  });

  it('D4: names with TTL 0, a TTL that counts down, and a long one are queried again after 1 s, what is left, and 30 s', async () => {
    for (const [ttl, pauseMs] of [
      [0, 1_000],
      [7, 7_000],
      [86_400, 30_000],
    ] as const) {
      server.zone.set('db.example', { a: ['10.0.0.1'], ttl });
      const one = watch({ host: 'db.example.' });
      await one.looked();
      expect(one.clock.nextInMs).toBe(pauseMs);
    }
  });

  it('D4: there is one query at a time per name, however many hints come', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(2) });
    server.fault({ kind: 'slow', delayMs: 30 });
    const one = watch();
    for (let round = 0; round < 5; round++) {
      one.refresh();
      one.clock.advance(100);
      one.refresh();
      await one.looked();
      one.clock.advance(1_000);
      one.refresh();
      one.clock.advance(0);
    }
    await one.looked();
    expect(server.count(ordersName)).toBeGreaterThan(4);
    expect(server.maxConcurrent(ordersName)).toBe(1);
  });

  it('D5: 100, 1,000 and 4,090 addresses come whole over TCP; without TCP the lookup fails and the set stays', async () => {
    for (const count of [100, 1_000, 4_090]) {
      server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(count) });
      const one = watch();
      await one.looked();
      expect(one.listener.endpoints).toHaveLength(count);
    }
    const one = watches.at(-1) as DnsWatch;
    await server.acceptTcp(false);
    await one.next();
    expect(one.listener.endpoints).toHaveLength(4_090);
    expect(one.events.at(-1)).toContain('no name server listens (ECONNREFUSED)');
  });

  it.each([
    [{ kind: 'rcode', rcode: 'SERVFAIL' }, 'ESERVFAIL'],
    [{ kind: 'rcode', rcode: 'REFUSED' }, 'EREFUSED'],
    [{ kind: 'rcode', rcode: 'FORMERR' }, 'EFORMERR'],
    [{ kind: 'garbage' }, 'EBADRESP'],
    [{ kind: 'silent' }, 'ETIMEOUT'],
  ] as const)('D6: %j leaves the set as it is', async (fault, code) => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(2) });
    const one = watch();
    await one.looked();
    server.fault(fault);
    await one.next();
    await one.next();
    expect(one.listener.keys).toBe('10.1.0.0:8080 10.1.0.1:8080');
    expect(one.events).toHaveLength(2);
    expect(one.events[1]).toContain(`(${code})`);
    server.clearFaults();
    await one.next();
    expect(one.events.at(-1)).toBe('fresh');
  });

  it('D7: the last set stays through an outage of any length, with pauses of up to 30 s; a call then gets a new query', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(2) });
    const one = watch();
    await one.looked();
    await server.stop();
    const pauses: number[] = [];
    for (let round = 0; round < 8; round++) {
      await one.next();
      pauses.push(one.clock.nextInMs ?? 0);
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    expect(one.events).toHaveLength(2);
    await server.listen();
    await one.next();
    expect(one.events.at(-1)).toBe('fresh');
  });

  it('D9: a CoreDNS rollout (refused, SERVFAIL, silence, then NXDOMAIN once) empties nothing', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(2) });
    const one = watch();
    await one.looked();
    await server.stop();
    await one.next();
    await server.listen();
    for (const fault of [
      { kind: 'rcode', rcode: 'SERVFAIL' },
      { kind: 'silent' },
      { kind: 'rcode', rcode: 'NXDOMAIN' },
    ] as const) {
      server.fault(fault, { times: 1 });
      await one.next();
    }
    await one.next();
    expect(one.events).not.toContain('∅');
    expect(one.events.at(-1)).toBe('fresh');
  });

  it('D8: a silent name server costs two tries and the deadline, not the defaults of c-ares', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: pods(2) });
    server.fault({ kind: 'silent' });
    const one = watch({ timeoutMs: 50, tries: 2 });
    await one.looked();
    expect(server.count(ordersName)).toBe(2);
    expect(one.events[0]).toContain('the name server is silent (ETIMEOUT)');
    const other = watch({ timeoutMs: 600_000, deadlineMs: 3_000 });
    await expect.poll(() => server.count(ordersName)).toBe(3);
    other.clock.advance(3_000);
    expect(other.events).toEqual([`fail dns ${ordersName}:8080: no answer within 3000 ms`]);
  });

  it('D10: an SRV answer that does not fit (EFORMERR) falls back to addresses at the known port', async () => {
    server.kubernetes.set({
      namespace: 'shop',
      name: 'orders',
      ports: [{ name: 'http', port: 8081 }],
      pods: pods(600),
    });
    server.fault({ kind: 'rcode', rcode: 'FORMERR' }, { type: 'SRV' });
    const one = watch({ srv: 'http', port: 8081 });
    await one.looked();
    expect(one.listener.endpoints).toHaveLength(600);
  });

  it('D10: SRV for 500 pods works, in two queries', async () => {
    server.kubernetes.set({
      namespace: 'shop',
      name: 'orders',
      ports: [{ name: 'http', port: 8081 }],
      pods: pods(500),
    });
    const one = watch({ srv: 'http' });
    await one.looked();
    expect(one.listener.endpoints).toHaveLength(500);
    expect(new Set(server.queries.map((query) => query.name)).size).toBe(2);
  });

  it('S3: a dual-stack Service gives each pod once', async () => {
    server.kubernetes.set({
      namespace: 'shop',
      name: 'orders',
      ports: [{ name: 'http', port: 8081 }],
      pods: [{ address: ['10.0.0.1', 'fd00::1'] }, { address: ['10.0.0.2', 'fd00::2'] }],
    });
    for (const options of [{}, { srv: 'http' }] as const) {
      const one = watch(options);
      await one.looked();
      expect(one.listener.endpoints?.map((endpoint) => endpoint.address)).toEqual(['10.0.0.1', '10.0.0.2']);
    }
    const six = watch({ family: 6, srv: 'http' });
    await six.looked();
    expect(six.listener.endpoints?.map((endpoint) => endpoint.address)).toEqual(['fd00::1', 'fd00::2']);
  });
});
