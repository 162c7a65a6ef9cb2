import { createSocket } from 'node:dgram';
import { promises as dns } from 'node:dns';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { createDnsServer, type DnsServer, type DnsServerOptions } from '../../servers/index.js';

const orders = 'orders.shop.svc.cluster.local';
let server: DnsServer;
let client: dns.Resolver;

async function start(options: DnsServerOptions = {}): Promise<void> {
  server = await createDnsServer(options);
  client = clientOf(10_000);
}

/** Patient with a busy machine, unless what is to be seen is that nothing comes. */
function clientOf(timeoutMs: number): dns.Resolver {
  const made = new dns.Resolver({ timeout: timeoutMs, tries: 1 });
  made.setServers([server.address]);
  return made;
}

const code = async (query: Promise<unknown>): Promise<unknown> =>
  query.then(
    () => 'answered',
    (error: NodeJS.ErrnoException) => error.code,
  );

const addresses = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `10.1.${index >> 8}.${index & 255}`);

afterEach(() => server.close());

describe('plain records', () => {
  beforeEach(() => start());

  it('answers A and AAAA with their TTL', async () => {
    server.zone.set('db.example', { a: ['10.0.0.1'], aaaa: ['fd00::1', '1:2:3:4:5:6:7:8'], ttl: 42 });
    expect(await client.resolve4('db.example', { ttl: true })).toEqual([{ address: '10.0.0.1', ttl: 42 }]);
    expect((await client.resolve6('db.example')).sort()).toEqual(['1:2:3:4:5:6:7:8', 'fd00::1']);
    expect(await client.resolve4('DB.Example.')).toEqual(['10.0.0.1']);
  });

  it('answers a TTL of 0', async () => {
    server.zone.set('db.example', { a: ['10.0.0.1'], ttl: 0 });
    expect(await client.resolve4('db.example', { ttl: true })).toEqual([{ address: '10.0.0.1', ttl: 0 }]);
  });

  it('answers SRV, and PTR', async () => {
    server.zone.set('_http._tcp.web.example', { srv: [{ target: 'one.example', port: 81, priority: 2, weight: 7 }] });
    server.zone.set('1.0.0.10.in-addr.arpa', { ptr: 'one.example' });
    const [record] = await client.resolveSrv('_http._tcp.web.example');
    expect(record).toMatchObject({ name: 'one.example', port: 81, priority: 2, weight: 7 });
    expect(await client.reverse('10.0.0.1')).toEqual(['one.example']);
  });

  it('follows CNAMEs and refuses a loop of them', async () => {
    server.zone.set('a.example', { cname: 'b.example' });
    server.zone.set('b.example', { cname: 'c.example' });
    server.zone.set('c.example', { a: ['10.0.0.3'] });
    server.zone.set('x.example', { cname: 'y.example' });
    server.zone.set('y.example', { cname: 'x.example' });
    expect(await client.resolve4('a.example')).toEqual(['10.0.0.3']);
    expect(await client.resolveCname('a.example')).toEqual(['b.example']);
    expect(await code(client.resolve4('x.example'))).toBe('ESERVFAIL');
  });

  it('distinguishes NXDOMAIN and NODATA', async () => {
    server.zone.set('empty.example', {});
    expect(await code(client.resolve4('nobody.example'))).toBe('ENOTFOUND');
    expect(await code(client.resolve4('empty.example'))).toBe('ENODATA');
  });
});

describe('size (D5)', () => {
  beforeEach(() => start());

  it('truncates above 512 bytes, and gives the whole answer over TCP', async () => {
    server.zone.set('many.example', { a: addresses(100) });
    expect((await client.resolve4('many.example')).sort()).toEqual(addresses(100).sort());
    expect(server.queries.map((query) => query.protocol)).toEqual(['udp', 'tcp']);
  });

  it('needs no TCP for 28 addresses', async () => {
    server.zone.set('some.example', { a: addresses(28) });
    expect(await client.resolve4('some.example')).toHaveLength(28);
    expect(server.queries.map((query) => query.protocol)).toEqual(['udp']);
  });

  it('honors the size in an OPT record', async () => {
    server.zone.set('many.example', { a: addresses(50) });
    const head = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    const name = [4, ...Buffer.from('many'), 7, ...Buffer.from('example'), 0];
    const query = Buffer.from([...head, ...name, 0, 1, 0, 1, 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    const answer = await askUdp(query);
    expect(answer.length).toBeGreaterThan(512);
    expect(answer.readUInt16BE(6)).toBe(50);
    expect(answer.readUInt8(2) & 0x02).toBe(0);
  });

  it('gives no answer when TCP is refused', async () => {
    server.zone.set('many.example', { a: addresses(100) });
    await server.acceptTcp(false);
    expect(await code(client.resolve4('many.example'))).toBe('ECONNREFUSED');
    await server.acceptTcp(true);
    expect(await client.resolve4('many.example')).toHaveLength(100);
  });

  it('carries about 4,090 A records in one message and says FORMERR beyond', async () => {
    server.zone.set('huge.example', { a: addresses(4_090) });
    expect(await client.resolve4('huge.example')).toHaveLength(4_090);
    server.zone.set('huge.example', { a: addresses(4_200) });
    expect(await code(client.resolve4('huge.example'))).toBe('EFORMERR');
  });

  it('takes several queries on one TCP connection, split anywhere', async () => {
    server.zone.set('db.example', { a: ['10.0.0.1'] });
    const name = [2, ...Buffer.from('db'), 7, ...Buffer.from('example'), 0, 0, 1, 0, 1];
    const query = (id: number): number[] => [0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...name];
    const framed = Buffer.from([0, query(1).length, ...query(1), 0, query(2).length, ...query(2)]);
    const socket = connect(server.port, '127.0.0.1');
    const answers = new Promise<Buffer>((resolve) => {
      let got: Buffer = Buffer.alloc(0);
      socket.on('data', (chunk) => {
        got = Buffer.concat([got, chunk]);
        const first = got.length >= 2 ? 2 + got.readUInt16BE(0) : Number.POSITIVE_INFINITY;
        if (got.length > first && got.length === first + 2 + got.readUInt16BE(first)) resolve(got);
      });
    });
    socket.setNoDelay();
    socket.write(framed.subarray(0, 1));
    socket.write(framed.subarray(1, 40));
    socket.write(framed.subarray(40));
    expect((await answers).readUInt16BE(2)).toBe(1);
    socket.destroy();
  });

  it('ends TCP connections that are open when it stops', async () => {
    const socket = connect(server.port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.on('error', () => {}).once('close', resolve));
    await new Promise((resolve) => socket.once('connect', resolve));
    await server.stop();
    await closed;
  });
});

describe('faults', () => {
  beforeEach(async () => {
    await start();
    server.zone.set('db.example', { a: ['10.0.0.1'], aaaa: ['fd00::1'] });
  });

  it.each([
    ['SERVFAIL', 'ESERVFAIL'],
    ['REFUSED', 'EREFUSED'],
    ['FORMERR', 'EFORMERR'],
    ['NOTIMP', 'ENOTIMP'],
    ['NXDOMAIN', 'ENOTFOUND'],
    ['NODATA', 'ENODATA'],
  ] as const)('%s reaches the client as %s', async (rcode, expected) => {
    server.fault({ kind: 'rcode', rcode });
    expect(await code(client.resolve4('db.example'))).toBe(expected);
  });

  it('silence times out, garbage is an invalid answer', async () => {
    server.fault({ kind: 'silent' }, { times: 1 });
    expect(await code(clientOf(300).resolve4('db.example'))).toBe('ETIMEOUT');
    server.fault({ kind: 'garbage' });
    expect(await code(client.resolve4('db.example'))).toBe('EBADRESP');
  });

  it('apply to one name, one type, a number of times, and can be removed', async () => {
    const takeBack = server.fault({ kind: 'rcode', rcode: 'SERVFAIL' }, { name: 'DB.example.', type: 'AAAA' });
    expect(await client.resolve4('db.example')).toEqual(['10.0.0.1']);
    expect(await code(client.resolve6('db.example'))).toBe('ESERVFAIL');
    takeBack();
    expect(await client.resolve6('db.example')).toEqual(['fd00::1']);
    server.fault({ kind: 'rcode', rcode: 'REFUSED' }, { times: 1 });
    expect(await code(client.resolve4('db.example'))).toBe('EREFUSED');
    expect(await client.resolve4('db.example')).toEqual(['10.0.0.1']);
  });

  it('truncate at will: the client queries again over TCP', async () => {
    server.fault({ kind: 'truncate' });
    expect(await client.resolve4('db.example')).toEqual(['10.0.0.1']);
    expect(server.queries.map((query) => query.protocol)).toEqual(['udp', 'tcp']);
  });

  it('include stop, which refuses clients, and listen on the same port again', async () => {
    const { port } = server;
    await server.stop();
    expect(await code(client.resolve4('db.example'))).toBe('ECONNREFUSED');
    await server.listen();
    expect(server.port).toBe(port);
    expect(await client.resolve4('db.example')).toEqual(['10.0.0.1']);
  });

  it('do not come from packets that are no query', async () => {
    const socket = createSocket('udp4');
    for (const bytes of [[], [1], new Array(12).fill(0xff), [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63, 65]]) {
      await new Promise((resolve) => socket.send(Buffer.from(bytes), server.port, '127.0.0.1', resolve));
    }
    socket.close();
    expect(await client.resolve4('db.example')).toEqual(['10.0.0.1']);
    expect(server.queries).toHaveLength(1);
  });
});

describe('counters', () => {
  it('count queries by name and type, and the most at one time', async () => {
    const clock = new FakeClock();
    await start({ clock });
    server.zone.set('db.example', { a: ['10.0.0.1'] });
    await client.resolve4('db.example');
    await code(client.resolve6('db.example'));
    expect([server.count('db.example'), server.count('db.example', 'A')]).toEqual([2, 1]);
    expect(server.maxConcurrent('db.example')).toBe(1);

    server.fault({ kind: 'slow', delayMs: 50 });
    const slow = new dns.Resolver({ timeout: 20_000, tries: 1 });
    slow.setServers([server.address]);
    const both = Promise.all([slow.resolve4('db.example'), slow.resolveAny('db.example').catch(() => [])]);
    while (clock.timers < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(server.maxConcurrent('db.example')).toBe(2);
    clock.advance(50);
    await both;
    server.resetCounters();
    expect(server.count('db.example')).toBe(0);
  });
});

describe('as a cache', () => {
  it('keeps an answer for its TTL, which counts down', async () => {
    const clock = new FakeClock();
    await start({ cache: true, clock });
    server.zone.set('db.example', { a: ['10.0.0.1'], ttl: 30 });
    const ttls: number[] = [];
    for (const stepMs of [0, 10_000, 19_500]) {
      clock.advance(stepMs);
      server.zone.set('db.example', { a: ['10.0.0.2'], ttl: 30 });
      const [record] = await client.resolve4('db.example', { ttl: true });
      ttls.push(record?.ttl ?? -1);
    }
    expect(ttls).toEqual([30, 20, 1]);
    clock.advance(500);
    expect(await client.resolve4('db.example', { ttl: true })).toEqual([{ address: '10.0.0.2', ttl: 30 }]);
  });
});

describe('shuffling (D3)', () => {
  it('changes the order, never the set', async () => {
    await start({ rng: seededRng(7) });
    server.zone.set('db.example', { a: addresses(8) });
    const orderings = new Set<string>();
    for (let round = 0; round < 20; round++) {
      const answer = await client.resolve4('db.example');
      orderings.add(answer.join());
      expect([...answer].sort()).toEqual(addresses(8));
    }
    expect(orderings.size).toBeGreaterThan(10);
  });
});

describe('as CoreDNS', () => {
  beforeEach(() => start({ shuffle: false }));
  const ports = [
    { name: 'http', port: 8080 },
    { name: 'metrics', port: 9090 },
  ];

  it('D2: answers one record per ready pod of a headless Service', async () => {
    const pods = [{ address: '10.0.0.1' }, { address: '10.0.0.2', ready: false }, { address: '10.0.0.3' }];
    server.kubernetes.set({ namespace: 'shop', name: 'orders', ports, pods });
    expect(await client.resolve4(orders, { ttl: true })).toEqual([
      { address: '10.0.0.1', ttl: 5 },
      { address: '10.0.0.3', ttl: 5 },
    ]);
    server.kubernetes.set({ namespace: 'shop', name: 'orders', ports, pods, publishNotReadyAddresses: true });
    expect(await client.resolve4(orders)).toHaveLength(3);
  });

  it('D6: no ready pod, no pod, no Service and no namespace are all NXDOMAIN', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', ports, pods: [{ address: '10.0.0.1', ready: false }] });
    server.kubernetes.set({ namespace: 'shop', name: 'none', ports });
    for (const name of [orders, 'none.shop.svc.cluster.local', 'x.shop.svc.cluster.local', 'x.y.svc.cluster.local']) {
      expect(await code(client.resolve4(name))).toBe('ENOTFOUND');
    }
  });

  it('S3: a family that the Service does not have is NODATA', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: [{ address: '10.0.0.1' }] });
    expect(await code(client.resolve6(orders))).toBe('ENODATA');
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: [{ address: ['10.0.0.1', 'fd00::1'] }] });
    expect(await client.resolve6(orders)).toEqual(['fd00::1']);
  });

  it('answers SRV with a target per pod for a headless Service', async () => {
    const pods = [{ address: '10.0.0.1' }, { address: '10.0.0.2', hostname: 'orders-0' }];
    server.kubernetes.set({ namespace: 'shop', name: 'orders', ports, pods });
    const records = await client.resolveSrv(`_http._tcp.${orders}`);
    expect(records.map((record) => [record.name, record.port, record.weight])).toEqual([
      [`10-0-0-1.${orders}`, 8080, 50],
      [`orders-0.${orders}`, 8080, 50],
    ]);
    expect(await client.resolve4(`orders-0.${orders}`)).toEqual(['10.0.0.2']);
    expect(await client.resolve4(`10-0-0-1.${orders}`)).toEqual(['10.0.0.1']);
    expect(await code(client.resolve4(`nobody.${orders}`))).toBe('ENOTFOUND');
    expect(await code(client.resolveSrv(`_grpc._tcp.${orders}`))).toBe('ENOTFOUND');
    expect(await client.resolveSrv(orders)).toHaveLength(4);
  });

  it('answers the cluster IP for any other Service, with pods or not, and SRV with the Service itself as target', async () => {
    server.kubernetes.set({
      namespace: 'shop',
      name: 'orders',
      clusterIPs: ['10.96.0.7'],
      ports: [{ name: 'http', port: 80 }],
    });
    expect(await client.resolve4(orders)).toEqual(['10.96.0.7']);
    const [record] = await client.resolveSrv(orders);
    expect(record).toMatchObject({ name: orders, port: 80 });
  });

  it('answers an ExternalName Service with a CNAME', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'db', externalName: 'db.example' });
    server.zone.set('db.example', { a: ['192.0.2.1'] });
    expect(await client.resolve4('db.shop.svc.cluster.local')).toEqual(['192.0.2.1']);
    expect(await client.resolveCname('db.shop.svc.cluster.local')).toEqual(['db.example']);
  });

  it('forgets a deleted Service', async () => {
    server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: [{ address: '10.0.0.1' }] });
    server.kubernetes.delete('shop', 'orders');
    expect(await code(client.resolve4(orders))).toBe('ENOTFOUND');
  });
});

async function askUdp(query: Buffer): Promise<Buffer> {
  const socket = createSocket('udp4');
  const answer = new Promise<Buffer>((resolve) => socket.once('message', resolve));
  socket.send(query, server.port, '127.0.0.1');
  const message = await answer;
  socket.close();
  return message;
}
