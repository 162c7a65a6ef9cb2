import { createBalancer, dns } from 'evenkeel';
import { FakeClock, FakeTransport } from 'evenkeel/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDnsServer, type DnsServer } from '../../servers/index.js';
import { DnsWatch, ordersName } from '../../support/fixtures/dns-watch.js';
import { until } from '../../support/until.js';

const a = '10.0.0.1';
const b = '10.0.0.2';
const keys = (...addresses: string[]): string => addresses.map((address) => `${address}:8080`).join(' ');
let server: DnsServer;
let watch: DnsWatch | undefined;

const pods = (...addresses: string[]): void =>
  server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: addresses.map((address) => ({ address })) });

beforeEach(async () => {
  server = await createDnsServer();
});
afterEach(async () => {
  watch?.close();
  watch = undefined;
  await server.close();
});

describe('section 6, headless DNS, with a real DNS server', () => {
  it('case 48: a b → SERVFAIL → timeout → a', async () => {
    pods(a, b);
    watch = new DnsWatch(server);
    await watch.looked();
    server.fault({ kind: 'rcode', rcode: 'SERVFAIL' });
    await watch.next();
    expect(watch.listener.keys).toBe(keys(a, b));
    server.fault({ kind: 'silent' });
    await watch.next();
    expect(watch.listener.keys).toBe(keys(a, b));
    server.clearFaults();
    pods(a);
    await watch.next();
    expect(watch.events).toEqual([
      keys(a, b),
      `fail DNS has no answer for A ${ordersName}.: the name server could not answer (ESERVFAIL)`,
      `fail DNS has no answer for A ${ordersName}.: the name server is silent (ETIMEOUT)`,
      keys(a),
    ]);
  });

  it('case 49: a → NXDOMAIN → a (2 s later)', async () => {
    pods(a);
    watch = new DnsWatch(server);
    await watch.looked();
    pods();
    await watch.next();
    pods(a);
    watch.clock.advance(2_000);
    watch.refresh();
    await watch.next();
    expect(server.count(ordersName)).toBe(3);
    expect(watch.events).toEqual([keys(a)]);
  });

  it('case 50: a → NXDOMAIN → NXDOMAIN (5 s later)', async () => {
    pods(a);
    watch = new DnsWatch(server);
    await watch.looked();
    pods();
    await watch.next();
    expect(watch.events).toEqual([keys(a)]);
    expect(watch.clock.nextInMs).toBe(5_000);
    await watch.next();
    expect(watch.events).toEqual([keys(a), '∅']);
  });

  it('case 51: a b → b a; a a b', async () => {
    await server.close();
    server = await createDnsServer({ shuffle: false });
    server.zone.set('db.example', { a: [a, b] });
    watch = new DnsWatch(server, { host: 'db.example.' });
    for (const records of [
      [b, a],
      [a, a, b],
    ]) {
      await watch.next();
      server.zone.set('db.example', { a: records });
    }
    await watch.next();
    expect(server.count('db.example')).toBe(4);
    expect(watch.events).toEqual([keys(a, b)]);
  });

  it('case 52: a b → b → a b within the drain timeout', async () => {
    pods(a, b);
    const clock = new FakeClock(0);
    const transport = new FakeTransport();
    const balancer = createBalancer({
      resolver: dns({ host: ordersName, port: 8080, servers: [server.address], deadlineMs: 500_000 }),
      transport,
      clock,
      rng: { next: () => 0.5 },
    });
    await balancer.ready();
    await until('two connections', () => transport.open().length === 2);
    const [first] = transport.open(a);
    // A call in flight keeps the draining connection open, as its drain timeout allows.
    let lease = balancer.pick();
    while (lease?.endpoint.address !== a) lease = balancer.pick();

    const published = async (version: number): Promise<void> => {
      await until('the look to end', () => (clock.nextInMs ?? 0) <= 10_000);
      clock.advance(5_000);
      await until(`set ${version}`, () => balancer.snapshot().version === version);
    };
    pods(b);
    await published(2);
    expect(balancer.snapshot().endpoints.find((endpoint) => endpoint.address === `${a}:8080`)?.state).toBe('draining');
    pods(a, b);
    await published(3);
    await until('a is ready again', () => balancer.snapshot().endpoints.every(({ state }) => state === 'ready'));
    expect(transport.open(a)).toEqual([first]);
    expect(transport.connections).toHaveLength(2);
    await balancer.close({ signal: AbortSignal.abort() });
  });

  it('case 53: first answer NXDOMAIN at start', async () => {
    const clock = new FakeClock(0);
    const balancer = createBalancer({
      resolver: dns({ host: ordersName, port: 8080, servers: [server.address], deadlineMs: 500_000 }),
      transport: new FakeTransport(),
      clock,
    });
    let ready = false;
    const waiting = balancer.ready().then(() => {
      ready = true;
    });
    await until('the first answer', () => server.count(ordersName) === 1 && clock.nextInMs === 5_000);
    expect([ready, balancer.snapshot().state]).toEqual([false, 'starting']);
    clock.advance(5_000);
    await waiting;
    expect([server.count(ordersName), balancer.snapshot().state]).toEqual([2, 'empty']);
    await balancer.close();
  });

  it('after case 50, pods that come back are found by the next call, not by the next TTL', async () => {
    pods(a);
    const clock = new FakeClock(0);
    const balancer = createBalancer({
      resolver: dns({ host: ordersName, port: 8080, servers: [server.address], deadlineMs: 500_000 }),
      transport: new FakeTransport(),
      clock,
    });
    await balancer.ready();
    pods();
    for (let look = 2; look <= 3; look++) {
      clock.advance(5_000);
      await until(`lookup ${look}`, () => server.count(ordersName) === look && (clock.nextInMs ?? 0) <= 5_000);
    }
    await until('the empty set', () => balancer.snapshot().state === 'empty');
    pods(a);
    clock.advance(1_500);
    await expect(balancer.acquire()).rejects.toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    clock.advance(0);
    await until('the set', () => balancer.snapshot().state === 'ready');
    expect(server.count(ordersName)).toBe(4);
    await balancer.close();
  });
});
