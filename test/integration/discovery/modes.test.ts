import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ServiceController } from '../../servers/index.js';
import { type DiscoveryWatch, DiscoveryWorld, reader } from '../../support/fixtures/discovery-world.js';

const ports = [{ name: 'http', port: 80, targetPort: 8080 }];
const clusterIP = '10.96.0.7';
let world: DiscoveryWorld;
const watches: DiscoveryWatch[] = [];

const watch = (target = 'orders.shop:http'): DiscoveryWatch => {
  const started = world.watch(target);
  watches.push(started);
  return started;
};
/** A Service as the API server and DNS both show it. */
const service = (kind: 'headless' | 'cluster-ip', ...pods: string[]): ServiceController => {
  const controller = world.api.service('shop', 'orders', { ports, headless: kind === 'headless' });
  controller.setPods(pods.map((address) => ({ name: `orders-${address}`, address })));
  const common = { namespace: 'shop', name: 'orders', pods: pods.map((address) => ({ address })) };
  if (kind === 'headless') world.dns.kubernetes.set({ ...common, ports: [{ name: 'http', port: 8080 }] });
  else world.dns.kubernetes.set({ ...common, clusterIPs: [clusterIP], ports: [{ name: 'http', port: 80 }] });
  return controller;
};
const slots = (port: number): string => Array.from({ length: 8 }, () => `${clusterIP}:${port}`).join(' ');

beforeEach(async () => {
  world = await DiscoveryWorld.create();
});
afterEach(async () => {
  for (const started of watches.splice(0)) started.close();
  await world[Symbol.asyncDispose]();
});

describe('a plain target in a pod', () => {
  it.each(['orders.shop:http', 'orders.shop:80', 'orders.shop.svc.cluster.local:80'])(
    '%s watches EndpointSlices with the pod’s own rights; DNS is not asked',
    async (target) => {
      const orders = service('cluster-ip', '10.0.0.1', '10.0.0.2');
      const one = watch(target);
      await one.until('the pods', () => one.addresses === '10.0.0.1:8080 10.0.0.2:8080');
      orders.setPods([{ name: 'c', address: '10.0.0.3' }]);
      await one.until('the new pod', () => one.addresses === '10.0.0.3:8080');
      expect(one.modes).toHaveLength(1);
      expect(one.mode).toBe('slices');
      expect(world.dns.queries).toEqual([]);
    },
  );

  it('an empty Service is an empty set, and no reason to ask DNS', async () => {
    service('headless');
    const one = watch();
    await one.until('the empty set', () => one.listener.events.includes('∅'));
    expect(one.mode).toBe('slices');
    expect(world.dns.queries).toEqual([]);
  });

  it.each(['nobody.shop:http', 'nobody.shop:80', 'kubernetes:nobody.shop:http'])(
    '%s, which does not exist: an empty set at once where Services cannot be read, with what is known',
    async (target) => {
      world.allow([{ namespace: 'shop', verbs: ['list', 'watch'], resources: ['endpointslices'] }]);
      const one = watch(target);
      const what =
        'shop has no EndpointSlice of a Service nobody: it does not exist, or nothing is behind it; is the namespace right?';
      // No time passes: what API server and DNS agree on needs no second look.
      await one.until('the reason', () => one.listener.errors.at(-1)?.message === what, 0);
      expect(one.listener.endpoints).toEqual([]);
      world.api.service('shop', 'nobody', { ports }).setPods([{ name: 'a', address: '10.0.0.1' }]);
      await one.until('the pod', () => one.addresses === '10.0.0.1:8080', 100);
    },
  );

  it('a Service without slices that DNS knows is found in DNS, though Services cannot be read', async () => {
    world.allow([{ namespace: 'shop', verbs: ['list', 'watch'], resources: ['endpointslices'] }]);
    world.dns.kubernetes.set({ namespace: 'shop', name: 'db', externalName: 'db.example' });
    world.dns.zone.set('db.example', { a: ['192.0.2.1', '192.0.2.2'] });
    const one = watch('db.shop:5432');
    await one.until('the addresses', () => one.addresses === '192.0.2.1:5432 192.0.2.2:5432', 0);
    expect(one.mode).toBe('dns');
    expect(one.listener.events).not.toContain('∅');
  });
});

describe('without permission', () => {
  it('uses headless DNS, by port name or number, says what permission is missing, and watches slices once it is given', async () => {
    world.allow([]);
    service('headless', '10.0.0.1', '10.0.0.2');
    const byName = watch();
    const byNumber = watch('orders.shop:8080');
    for (const one of [byName, byNumber]) {
      await one.until('the pods', () => one.addresses === '10.0.0.1:8080 10.0.0.2:8080');
      expect(one.mode).toBe('dns');
      expect(one.modes[0]?.advice).toContain('verbs: ["list", "watch"]');
    }
    world.allow(reader);
    await byName.until('the climb', () => byName.mode === 'slices', 500);
    expect(byName.listener.keys).toMatch(/^10\.0\.0\.1:8080#.+ 10\.0\.0\.2:8080#/);
    expect(byName.listener.events).not.toContain('∅');
  });

  it('uses the cluster IP as eight slots where the Service is not headless, and watches slices once permission is given', async () => {
    world.allow([]);
    service('cluster-ip', '10.0.0.1', '10.0.0.2');
    const one = watch();
    await one.until('the slots', () => one.addresses === slots(80));
    expect(one.mode).toBe('name');
    expect(new Set(one.listener.endpoints?.map((endpoint) => endpoint.key)).size).toBe(8);
    world.allow(reader);
    await one.until('the climb', () => one.addresses === '10.0.0.1:8080 10.0.0.2:8080', 500);
    expect(one.modes.map(({ mode }) => mode)).toEqual(['name', 'slices']);
  });

  it('tells the only pod of a headless Service from a cluster IP', async () => {
    world.allow([]);
    service('headless', '10.0.0.1');
    const one = watch('orders.shop:8080');
    await one.until('the pod', () => one.addresses === '10.0.0.1:8080');
    expect(one.mode).toBe('dns');
  });

  it('to watch, but with permission to list: lists go on, and the set stays', async () => {
    world.allow([{ namespace: 'shop', verbs: ['list'], resources: ['endpointslices'] }]);
    service('headless', '10.0.0.1');
    const one = watch();
    await one.until('the pod', () => one.addresses === '10.0.0.1:8080');
    await one.until('the refusal', () => one.listener.errors.length > 0, 100);
    expect(one.listener.errors[0]?.message).toContain('watch');
    const seenMs = one.clock.now();
    await one.until('more lists', () => one.clock.now() > seenMs + 150_000, 100);
    expect(one.modes.map(({ mode }) => mode)).toEqual(['slices']);
    expect(one.listener.events).not.toContain('∅');
  });
});

it('a Service that is deleted for 6 s and created again keeps its pods, and says meanwhile that there is none', async () => {
  const orders = service('cluster-ip', '10.0.0.1', '10.0.0.2');
  const one = watch('orders.shop:80');
  const both = '10.0.0.1:8080 10.0.0.2:8080';
  await one.until('the pods', () => one.addresses === both);
  orders.delete();
  await one.until('the word', () => one.listener.errors.length > 0);
  expect(one.listener.errors[0]?.message).toBe('there is no Service orders in the namespace shop');
  const deletedMs = one.clock.now();
  await one.until('6 s', () => one.clock.now() - deletedMs > 6_000);
  service('cluster-ip', '10.0.0.1', '10.0.0.2');
  await one.until('that it is over', () => one.listener.events.at(-1) === 'fresh');
  expect(one.listener.events.filter((event) => !/^(fail|fresh)/.test(event))).toHaveLength(1);
  expect([one.addresses, one.mode]).toEqual([both, 'slices']);
});

describe('a mistake in the target', () => {
  const said = (one: DiscoveryWatch): string | undefined => one.listener.errors.at(-1)?.message;

  it('a port number that the Service does not have: reported at once, and no other mode is tried', async () => {
    service('cluster-ip', '10.0.0.1');
    const one = watch('orders.shop:8081');
    await one.until('the error', () => one.listener.errors.length > 0);
    expect(said(one)).toBe('Service shop/orders has no port 8081; it has http 80');
    expect(one.listener.errors[0]?.permanent).toBe(true);
    const several = world.api.service('shop', 'orders', { ports: [...ports, { name: 'grpc', port: 50051 }] });
    several.setPods([{ name: 'a', address: '10.0.0.1' }]);
    for (const target of ['orders.shop:8081', 'kubernetes:orders.shop:8081', 'orders.shop:8080']) {
      const other = watch(target);
      await other.until('the error', () => other.listener.errors.length > 0);
      expect(said(other)).toBe(`Service shop/orders has no port ${target.slice(-4)}; it has http 80, grpc 50051`);
      // Far beyond every grace period: the cluster IP would be an address where nobody listens.
      await other.clock.advanceAsync(29_000);
      expect(other.listener.endpoints).toBeUndefined();
    }
    expect(world.dns.queries).toEqual([]);
  });

  it('that is corrected in the Service needs no restart', async () => {
    const orders = service('cluster-ip', '10.0.0.1');
    const one = watch('orders.shop:8081');
    await one.until('the error', () => one.listener.errors.length > 0);
    orders.setPorts([...ports, { name: 'grpc', port: 8081, targetPort: 50051 }]);
    await one.until('the pods', () => one.addresses === '10.0.0.1:50051', 200);
  });

  it('that is made later, by a port taken off the Service: no pod is called at the port any longer, until it is back', async () => {
    const both = [...ports, { name: 'grpc', port: 50051 }];
    const orders = world.api.service('shop', 'orders', { ports: both });
    orders.setPods([{ name: 'a', address: '10.0.0.1' }]);
    const one = watch('orders.shop:50051');
    await one.until('the pod', () => one.addresses === '10.0.0.1:50051');
    orders.setPorts(ports);
    await one.until('none', () => one.addresses === '');
    expect(said(one)).toBe('Service shop/orders has no port 50051; it has http 80');
    orders.setPods([{ name: 'b', address: '10.0.0.2' }]);
    orders.setPorts(both);
    await one.until('the pod of today', () => one.addresses === '10.0.0.2:50051', 200);
    expect(one.mode).toBe('slices');
  });

  it('is not made by the port number of the pods of a headless Service', async () => {
    service('headless', '10.0.0.1');
    const one = watch('orders.shop:8080');
    await one.until('the pods', () => one.addresses === '10.0.0.1:8080');
    expect(one.mode).toBe('slices');
  });

  it('where only slices can be read: a single port is used; with several ports the advice names them', async () => {
    world.allow([{ namespace: 'shop', verbs: ['list', 'watch'], resources: ['endpointslices'] }]);
    service('cluster-ip', '10.0.0.1');
    const one = watch('orders.shop:9999');
    await one.until('the pod', () => one.addresses === '10.0.0.1:8080');
    const several = world.api.service('shop', 'orders', { ports: [...ports, { name: 'grpc', port: 50051 }] });
    several.setPods([{ name: 'a', address: '10.0.0.1' }]);
    const other = watch('orders.shop:80');
    await other.until('the slots', () => other.addresses === slots(80));
    expect(other.modes[0]?.advice).toContain(
      "resolver: 'kubernetes:orders.shop:grpc' or 'kubernetes:orders.shop:http', or allow \"get services\"",
    );
    expect(other.modes[0]?.advice).toContain('name: test\n    namespace: test');
  });

  it('a misspelled port name', async () => {
    service('cluster-ip', '10.0.0.1');
    const one = watch('orders.shop:htttp');
    await one.until('the error', () => one.listener.errors.length > 0);
    expect(said(one)).toBe('Service shop/orders has no port named "htttp"; it has http 80');
    expect(world.dns.queries).toEqual([]);
  });

  it.each(['odrers.shop:80', 'odrers.shop:http', 'kubernetes:odrers.shop:http'])(
    '%s, a misspelled Service: an empty set at once, with the reason; found once it is created',
    async (target) => {
      const one = watch(target);
      await one.until('the reason', () => one.listener.errors.some(({ message }) => message.includes('no Service')), 0);
      expect(one.listener.endpoints).toEqual([]);
      expect(said(one)).toBe('there is no Service odrers in the namespace shop');
      expect(one.modes.length).toBeLessThan(2);
      await one.until('more looks', () => one.clock.now() > 60_000, 500);
      expect(new Set(one.listener.errors.map(({ message }) => message)).size).toBe(1);
      expect(one.listener.endpoints).toEqual([]);
      world.api.service('shop', 'odrers', { ports }).setPods([{ name: 'a', address: '10.0.0.1' }]);
      await one.until('the pod', () => one.addresses === '10.0.0.1:8080', 100);
      expect(one.listener.events.at(-1)).toContain('10.0.0.1:8080');
    },
  );
});

describe('an API server that has just started and refuses everybody', () => {
  it('does not make calls wait: DNS is queried after one refusal, and slices are watched after the next answer', async () => {
    service('cluster-ip', '10.0.0.1', '10.0.0.2');
    world.api.failNext('watch', { kind: 'status', status: 403 });
    world.api.failNext('list', { kind: 'status', status: 403 });
    const one = watch('orders.shop:80');
    // No time passes: neither a pause nor a second question comes before DNS.
    await one.until('the slots', () => one.addresses === slots(80), 0);
    expect(world.api.counts.lists).toBe(1);
    await one.until('the climb', () => one.addresses === '10.0.0.1:8080 10.0.0.2:8080');
    expect(one.modes.map(({ mode }) => mode)).toEqual(['name', 'slices']);
    expect(one.listener.errors).toEqual([]);
  });
});

describe('losing a mode', () => {
  it('the API server is away for an hour: nothing changes, and DNS is not asked', async () => {
    service('headless', '10.0.0.1', '10.0.0.2');
    const one = watch();
    await one.until('the pods', () => one.addresses === '10.0.0.1:8080 10.0.0.2:8080');
    await world.api.kill();
    await one.until('the failure', () => one.listener.errors.length > 0);
    for (let minute = 0; minute < 60; minute++) {
      await one.clock.advanceAsync(60_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(one.addresses).toBe('10.0.0.1:8080 10.0.0.2:8080');
    expect(world.dns.queries).toEqual([]);
    await world.api.start({ history: 'lost', forbiddenMs: 0 });
    await one.until('the recovery', () => one.listener.events.at(-1) === 'fresh', 500);
  });

  it('permission is taken away: DNS takes over once it has pods, and slices do when permission is back', async () => {
    const orders = service('cluster-ip', '10.0.0.1', '10.0.0.2');
    const one = watch('orders.shop:80');
    await one.until('the pods', () => one.mode === 'slices');
    world.dns.fault({ kind: 'rcode', rcode: 'SERVFAIL' });
    world.allow([]);
    world.api.disturb('end');
    world.api.compact();
    await one.until('the refusal', () => one.listener.errors.some(({ code }) => code === 'EVENKEEL_FORBIDDEN'), 100);
    await one.until('a question', () => world.dns.queries.length > 2, 100);
    expect(one.addresses).toBe('10.0.0.1:8080 10.0.0.2:8080');
    world.dns.clearFaults();
    await one.until('the slots', () => one.addresses === slots(80), 100);
    world.allow(reader);
    orders.setPods([{ name: 'c', address: '10.0.0.3' }]);
    await one.until('the climb', () => one.addresses === '10.0.0.3:8080', 500);
    expect(one.modes.map(({ mode }) => mode)).toEqual(['slices', 'name', 'slices']);
    expect(one.listener.events).not.toContain('∅');
  });

  it('permission is taken away, and then the API server is away: the last set stays, and DNS is not asked', async () => {
    service('headless', '10.0.0.1', '10.0.0.2');
    const one = watch();
    await one.until('the pods', () => one.mode === 'slices');
    world.allow([]);
    world.api.disturb('end');
    world.api.compact();
    await one.until('the refusal', () => one.listener.errors.some(({ code }) => code === 'EVENKEEL_FORBIDDEN'), 100);
    await world.api.kill();
    await one.until('the outage', () => one.listener.errors.at(-1)?.message.includes('ECONNREFUSED') === true, 100);
    const seenMs = one.clock.now();
    await one.until('more failures', () => one.clock.now() > seenMs + 150_000, 100);
    expect(one.addresses).toBe('10.0.0.1:8080 10.0.0.2:8080');
    expect([world.dns.queries, one.modes.length]).toEqual([[], 1]);
  });

  it('name server and API server are both away after a start without permission: the last set stays', async () => {
    world.allow([]);
    service('headless', '10.0.0.1');
    const one = watch();
    await one.until('the pod', () => one.addresses === '10.0.0.1:8080');
    await world.api.kill();
    await world.dns.stop();
    await one.until('the failure', () => one.listener.errors.length > 0, 500);
    await one.until('more failures', () => one.clock.now() > 600_000, 5_000);
    expect(one.addresses).toBe('10.0.0.1:8080');
  });

  it('nothing answers from the start: one failure names both, then discovery recovers', async () => {
    service('headless', '10.0.0.1');
    await world.api.kill();
    await world.dns.stop();
    const one = watch();
    await one.until('the failure', () => one.listener.errors.length > 0);
    expect(one.listener.errors[0]?.message).toMatch(/ECONNREFUSED.*; DNS has no answer/);
    expect(one.listener.errors[0]?.permanent).toBe(false);
    await world.dns.listen();
    await one.until('the pod', () => one.addresses === '10.0.0.1:8080', 500);
    expect(one.mode).toBe('dns');
    await world.api.start({ forbiddenMs: 0 });
    await one.until('the climb', () => one.mode === 'slices', 500);
  });
});
