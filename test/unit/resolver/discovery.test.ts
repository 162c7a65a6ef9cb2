import { beforeEach, describe, expect, it } from 'vitest';
import { EvenkeelError, ResolveError } from '../../../src/errors.js';
import type { ObserverEvents } from '../../../src/observe/observer.js';
import { type DiscoveryOptions, type DiscoveryService, discovery } from '../../../src/resolver/discovery.js';
import { resolveDnsOptions } from '../../../src/resolver/dns.js';
import type { Resolution } from '../../../src/resolver/resolver.js';
import { WrongTarget } from '../../../src/resolver/wrong-target.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { FakeDnsClient } from '../../support/fixtures/fake-dns-client.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

const orders = 'orders.shop.svc.cluster.local';
const noSuchName =
  'DNS has no address for orders.shop.svc.cluster.local.: there is no such Service, or none of its pods is ready; ' +
  'is the namespace shop right?';
const slotKeys = Array.from({ length: 8 }, (_, index) => `10.96.0.7:80#slot-${index + 1}`).join(' ');
const forbidden = new ResolveError(
  'the API server does not let us list endpointslices: User "system:serviceaccount:web:frontend" cannot list',
  { code: 'EVENKEEL_FORBIDDEN', permanent: true },
);

let clock: FakeClock;
let listener: RecordingListener;
let client: FakeDnsClient;
let slices: FakeResolver;
let onSlices: (count: number) => void;
let asked: DiscoveryService[];
let modes: ObserverEvents['discoveryChanged'][];
let warnings: string[];
let resolution: Resolution;

async function watch(options: Partial<DiscoveryOptions> & { readonly namespace?: string } = {}): Promise<void> {
  const { namespace = 'web', ...given } = options;
  const resolved = resolveDnsOptions({
    host: 'x',
    port: 1,
    client: () => client,
    clusterDomain: 'cluster.local',
    namespace,
  });
  const { host: _host, port: _port, srv: _srv, ...dns } = resolved;
  const resolver = discovery({
    target: 'orders.shop:80',
    host: 'orders.shop',
    port: 80,
    slices: async (service, counted) => {
      asked.push(service);
      onSlices = counted;
      return slices;
    },
    dns,
    slots: { connections: 8, connectionAgeMs: 60_000 },
    sliceGraceMs: 2_500,
    ...given,
  });
  resolution = resolver.watch(listener, {
    clock,
    rng: { next: () => 0 },
    observer: { discoveryChanged: (event) => modes.push(event), warned: ({ message }) => warnings.push(message) },
  });
  await turn();
}

async function turn(ms = 0): Promise<void> {
  await clock.advanceAsync(ms);
  for (let round = 0; round < 5; round++) await settle();
}

/** The API server shows a Service with these pods. */
function show(...pods: string[]): void {
  onSlices(1);
  slices.update(...pods.map((address) => ({ address, port: 8080, uid: `uid-${address}` })));
}

const headless = (...pods: string[]): void => {
  client.answers[`A ${orders}.`] = pods;
  client.answers[`SRV ${orders}.`] = pods.map((pod) => ({
    name: `${pod}.${orders}`,
    port: 80,
    priority: 0,
    weight: 1,
  }));
};
const clusterIp = (): void => {
  client.answers[`A ${orders}.`] = ['10.96.0.7'];
  client.answers[`SRV ${orders}.`] = [{ name: orders, port: 80, priority: 0, weight: 100 }];
};

beforeEach(() => {
  clock = new FakeClock(0);
  listener = new RecordingListener();
  client = new FakeDnsClient();
  slices = new FakeResolver();
  asked = [];
  modes = [];
  warnings = [];
});

describe('the slices mode', () => {
  it('is used when the API server answers; DNS is not queried', async () => {
    await watch();
    show('10.0.0.1');
    await turn(10_000);
    expect(asked).toEqual([{ service: 'orders', namespace: 'shop', port: 80 }]);
    expect(client.asked).toEqual([]);
    expect(listener.events).toEqual(['10.0.0.1:8080#uid-10.0.0.1']);
    expect(modes).toEqual([{ target: 'orders.shop:80', mode: 'slices', reason: 'its EndpointSlices are watched' }]);
  });

  it('uses this pod’s namespace for a name of one label', async () => {
    await watch({ host: 'orders' });
    expect(asked[0]?.namespace).toBe('web');
  });

  it('is not used for names that cannot be Services of this cluster', async () => {
    client.answers['A db.example.com.'] = ['10.0.0.1', '10.0.0.2'];
    client.answers['A orders.shop.svc.clusterset.local.'] = ['10.0.0.3', '10.0.0.4'];
    await watch({ host: 'db.example.com' });
    await watch({ host: 'orders.shop.svc.clusterset.local' });
    expect(asked).toEqual([]);
    expect(listener.events).toEqual(['10.0.0.1:80 10.0.0.2:80', '10.0.0.3:80 10.0.0.4:80']);
    expect(modes[0]?.reason).toContain('not the name of a Service in this cluster');
  });

  it('keeps its last set through an outage of the API server, stale (W15)', async () => {
    headless('10.0.0.9');
    await watch();
    show('10.0.0.1');
    slices.fail(new ResolveError('API server away'));
    await turn(3_600_000);
    expect(client.asked).toEqual([]);
    slices.fresh();
    expect(listener.events).toEqual(['10.0.0.1:8080#uid-10.0.0.1', 'fail API server away', 'fresh']);
  });

  it('asks DNS in an outage of the API server in which no endpoint can be connected to, until slices come', async () => {
    headless('10.0.0.9');
    await watch();
    show('10.0.0.1');
    resolution.refresh(0, true);
    slices.fail(new ResolveError('API server away'));
    resolution.refresh(0, false);
    await turn(3_600_000);
    expect(client.asked).toEqual([]);
    resolution.refresh(0, true);
    await turn(0);
    expect(listener.keys).toBe('10.0.0.9:8080');
    show('10.0.0.2');
    expect(listener.keys).toBe('10.0.0.2:8080#uid-10.0.0.2');
    slices.fail(new ResolveError('API server away'));
    await turn(3_600_000);
    expect(listener.keys).toBe('10.0.0.2:8080#uid-10.0.0.2');
  });

  it('has an empty Service if a list is empty after a slice was seen', async () => {
    headless('10.0.0.9');
    await watch();
    show('10.0.0.1');
    onSlices(0);
    slices.update();
    await turn(10_000);
    expect(listener.events.at(-1)).toBe('∅');
    expect(client.asked).toEqual([]);
  });

  it('has an empty Service at once with a placeholder slice', async () => {
    headless('10.0.0.9');
    await watch();
    show();
    expect(listener.events).toEqual(['∅']);
  });
});

describe('a first list without any slice', () => {
  it('is no reason to use the slices mode: DNS is queried, and no empty set is published', async () => {
    headless('10.0.0.9', '10.0.0.8');
    await watch();
    onSlices(0);
    slices.update();
    await turn();
    expect(listener.events).toEqual(['10.0.0.8:80 10.0.0.9:80']);
    expect(modes[0]?.reason).toContain('the API server has no EndpointSlice of it');
  });

  it('with NXDOMAIN twice gives an empty set, with the reason that there is no such Service', async () => {
    await watch();
    onSlices(0);
    slices.update();
    await turn(999);
    expect(listener.events).toEqual([]);
    await turn(1);
    expect(listener.events).toEqual([`fail orders.shop:80: ${noSuchName}`]);
    await turn(5_000);
    expect(listener.events.slice(1)).toEqual(['∅']);
    expect(listener.reason).toBe(noSuchName);
    expect(modes[0]?.reason).toContain('DNS has no such name: there is no such Service, or none of its pods is ready');
  });

  it('for a Service that does not exist is one failure, whether DNS or the API server says so first', async () => {
    await watch();
    onSlices(0);
    slices.update();
    await turn(900);
    slices.fail(new WrongTarget('service', 'there is no Service orders in the namespace shop'));
    await turn(20_000);
    expect(listener.events).toEqual(['∅', 'fail there is no Service orders in the namespace shop']);
  });

  it('is no failure if a slice appears while DNS does not have the name yet', async () => {
    await watch();
    onSlices(0);
    slices.update();
    await turn(900);
    onSlices(1);
    await turn(999);
    expect(listener.events).toEqual([]);
    await turn(1);
    expect(listener.events).toEqual(['∅']);
  });

  it('leaves no timer behind when discovery closes while it waits for the Service', async () => {
    await watch();
    onSlices(0);
    slices.update();
    await turn();
    resolution.close();
    await turn(60_000);
    expect(listener.events).toEqual([]);
    expect(clock.timers).toBe(0);
  });

  it('is followed by the slices mode when slices appear', async () => {
    headless('10.0.0.9');
    await watch();
    onSlices(0);
    slices.update();
    await turn();
    show('10.0.0.1');
    await turn(10_000);
    expect(listener.events).toEqual(['10.0.0.9:80', '10.0.0.1:8080#uid-10.0.0.1']);
    expect(modes.map(({ mode }) => mode)).toEqual(['dns', 'slices']);
    expect(clock.timers).toBe(0);
  });

  it('is followed by an empty Service when a slice appears and stays empty', async () => {
    headless('10.0.0.9');
    await watch();
    onSlices(0);
    slices.update();
    await turn();
    onSlices(1);
    await turn(999);
    expect(listener.keys).toBe('10.0.0.9:80');
    await turn(1);
    expect(listener.keys).toBe('');
  });
});

describe('no permission', () => {
  it('leads to headless DNS at once, with the manifest that would help', async () => {
    headless('10.0.0.1', '10.0.0.2');
    await watch();
    slices.fail(forbidden);
    await turn();
    expect(listener.events).toEqual(['10.0.0.1:80 10.0.0.2:80']);
    expect(modes).toHaveLength(1);
    expect(modes[0]).toMatchObject({ mode: 'dns' });
    expect(modes[0]?.reason).toContain('does not let us list endpointslices');
    expect(modes[0]?.advice).toContain('namespace: shop');
    expect(modes[0]?.advice).toContain('name: frontend\n    namespace: web');
  });

  it('with a name that DNS does not know gives an empty set at once, with both reasons, and it stays', async () => {
    await watch();
    slices.fail(new ResolveError(forbidden.message, { code: 'EVENKEEL_FORBIDDEN' }));
    await turn();
    const both = `fail orders.shop:80: ${noSuchName}; EndpointSlices are not watched: ${forbidden.message}`;
    expect(listener.events).toEqual(['∅', both]);
    slices.fail(forbidden);
    await turn(60_000);
    expect(listener.events).toEqual(['∅', both]);
    headless('10.0.0.1');
    resolution.refresh();
    await turn(1_000);
    expect(listener.events.slice(2)).toEqual(['10.0.0.1:80']);
  });

  it('remains the reason for a set that becomes empty later', async () => {
    headless('10.0.0.1');
    await watch();
    slices.fail(forbidden);
    await turn();
    client.answers[`A ${orders}.`] = 'ENOTFOUND';
    await turn(20_000);
    expect(listener.events).toEqual(['10.0.0.1:80', '∅']);
    expect(listener.reason).toBe(`${noSuchName}; EndpointSlices are not watched: ${forbidden.message}`);
  });

  it('that comes after DNS was found empty becomes part of the reason', async () => {
    await watch();
    await turn(20_000);
    expect(listener.reason).toBe(noSuchName);
    slices.fail(forbidden);
    expect(listener.reason).toBe(`${noSuchName}; EndpointSlices are not watched: ${forbidden.message}`);
  });

  it('that is reported after DNS has answered gives an empty set as soon as both are known', async () => {
    await watch();
    await turn(2_500);
    expect(listener.events).toEqual([`fail orders.shop:80: ${noSuchName}`]);
    slices.fail(forbidden);
    await turn();
    expect(listener.events.slice(1)).toEqual([
      '∅',
      `fail orders.shop:80: ${noSuchName}; EndpointSlices are not watched: ${forbidden.message}`,
    ]);
  });

  it('is enough to query DNS at the first refusal, and is reported once while it lasts', async () => {
    headless('10.0.0.1');
    await watch();
    slices.fail(new ResolveError(forbidden.message, { code: 'EVENKEEL_FORBIDDEN' }));
    await turn();
    expect(listener.events).toEqual(['10.0.0.1:80']);
    slices.fail(forbidden);
    await turn(60_000);
    expect(modes).toHaveLength(1);
    expect(modes[0]?.advice).toContain('kind: RoleBinding');
    expect(warnings).toEqual([]);
  });

  it('for a moment only is followed by the slices mode', async () => {
    headless('10.0.0.1');
    await watch();
    slices.fail(new ResolveError(forbidden.message, { code: 'EVENKEEL_FORBIDDEN' }));
    await turn(200);
    show('10.0.0.1');
    await turn(60_000);
    expect(listener.events).toEqual(['10.0.0.1:80', '10.0.0.1:8080#uid-10.0.0.1']);
    expect(modes.map(({ mode }) => mode)).toEqual(['dns', 'slices']);
  });

  it('is followed by the slices mode when permission is given', async () => {
    headless('10.0.0.1');
    await watch();
    slices.fail(forbidden);
    await turn();
    show('10.0.0.1');
    expect(modes.map(({ mode }) => mode)).toEqual(['dns', 'slices']);
    expect(listener.events.at(-1)).toBe('10.0.0.1:8080#uid-10.0.0.1');
  });

  it('once it is taken away keeps the set until DNS has one, at the pods’ own port (S11)', async () => {
    await watch();
    show('10.0.0.1', '10.0.0.2');
    client.answers[`A ${orders}.`] = 'ESERVFAIL';
    slices.fail(forbidden);
    await turn(64_999);
    expect(client.asked).toEqual([]);
    await turn(3_000);
    expect(client.asked).not.toEqual([]);
    expect(listener.keys).toBe('10.0.0.1:8080#uid-10.0.0.1 10.0.0.2:8080#uid-10.0.0.2');
    headless('10.0.0.2', '10.0.0.3');
    await turn(30_000);
    expect(listener.keys).toBe('10.0.0.2:8080 10.0.0.3:8080');
  });

  it('once it is taken away while DNS does not have the name empties nothing; slices are used again when it is back', async () => {
    await watch();
    show('10.0.0.1');
    slices.fail(forbidden);
    await turn(120_000);
    expect(listener.keys).toBe('10.0.0.1:8080#uid-10.0.0.1');
    slices.fresh();
    expect(listener.events).toEqual(['10.0.0.1:8080#uid-10.0.0.1', `fail ${forbidden.message}`, 'fresh']);
    expect(clock.timers).toBe(0);
  });

  it('once it is taken away where pods have several ports keeps the last set, unless there is a cluster IP', async () => {
    headless('10.0.0.1');
    await watch();
    onSlices(1);
    slices.update({ address: '10.0.0.1', port: 8080 }, { address: '10.0.0.2', port: 8081 });
    slices.fail(forbidden);
    await turn(120_000);
    expect(listener.keys).toBe('10.0.0.1:8080 10.0.0.2:8081');
    clusterIp();
    await turn(30_000);
    expect(listener.keys).toBe(slotKeys);
  });

  it('for a moment, after there was permission, changes nothing', async () => {
    headless('10.0.0.9');
    await watch();
    show('10.0.0.1');
    slices.fail(forbidden);
    await turn(20_000);
    slices.fresh();
    await turn(60_000);
    expect(client.asked).toEqual([]);
    expect(listener.events).toEqual(['10.0.0.1:8080#uid-10.0.0.1', `fail ${forbidden.message}`, 'fresh']);
  });

  it('that an outage follows keeps the set for as long as the outage (W15); the next refusal has to last anew', async () => {
    headless('10.0.0.9');
    await watch();
    show('10.0.0.1');
    slices.fail(forbidden);
    await turn(20_000);
    slices.fail(new ResolveError('API server away'));
    await turn(3_600_000);
    expect([client.asked, listener.keys]).toEqual([[], '10.0.0.1:8080#uid-10.0.0.1']);
    slices.fail(forbidden);
    await turn(64_999);
    expect(client.asked).toEqual([]);
    await turn(1);
    expect(listener.keys).toBe('10.0.0.9:8080');
  });

  it('that ends after DNS took over gives the set of the watch again', async () => {
    headless('10.0.0.9');
    await watch();
    show('10.0.0.1');
    slices.fail(forbidden);
    await turn(65_000);
    expect(listener.keys).toBe('10.0.0.9:8080');
    slices.fresh();
    expect(listener.keys).toBe('10.0.0.1:8080#uid-10.0.0.1');
    expect(modes.map(({ mode }) => mode)).toEqual(['slices', 'dns', 'slices']);
  });
});

describe('an API server that does not answer', () => {
  it('is waited for, then DNS is queried too; the better answer wins whenever it comes', async () => {
    headless('10.0.0.9');
    await watch();
    await turn(2_499);
    expect(client.asked).toEqual([]);
    await turn(1);
    expect(listener.events).toEqual(['10.0.0.9:80']);
    expect(modes[0]?.reason).toContain('the API server has not answered yet');
    show('10.0.0.1');
    expect(listener.keys).toBe('10.0.0.1:8080#uid-10.0.0.1');
  });

  it('and then refuses permission causes no other mode: a warning has the reason and the manifest, once', async () => {
    headless('10.0.0.9');
    await watch();
    await turn(2_500);
    slices.fail(new ResolveError('could not list: no answer for 3 s'));
    slices.fail(forbidden);
    slices.fail(new ResolveError('could not list: ECONNREFUSED'));
    slices.fail(forbidden);
    expect(modes.map(({ mode }) => mode)).toEqual(['dns']);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('orders.shop:80: EndpointSlices are not watched: the API server does not let us');
    expect(warnings[0]).toContain('kind: RoleBinding');
  });

  it('and changes its failure over time: the mode is reported once, and again only after another', async () => {
    headless('10.0.0.9');
    await watch();
    await turn(2_500);
    slices.fail(new ResolveError('could not list: no answer for 3 s'));
    slices.fail(new ResolveError(forbidden.message, { code: 'EVENKEEL_FORBIDDEN' }));
    slices.fail(forbidden);
    clusterIp();
    await turn(30_000);
    headless('10.0.0.9', '10.0.0.8');
    await turn(30_000);
    expect(modes.map(({ mode }) => mode)).toEqual(['dns', 'name', 'dns']);
  });
});

describe('a single address in DNS', () => {
  it('that is the cluster IP becomes eight slots of limited age, with advice', async () => {
    clusterIp();
    await watch();
    slices.fail(forbidden);
    await turn();
    expect(listener.keys).toBe(slotKeys);
    expect(modes[0]).toMatchObject({ mode: 'name' });
    expect(modes[0]?.advice).toContain('kind: RoleBinding');
    expect(modes[0]?.advice).toContain('clusterIP: None');
    await turn(60_000);
    expect(listener.events).toHaveLength(1);
    expect(client.asked.filter((question) => question.startsWith('SRV'))).toHaveLength(1);
  });

  it('that is the only pod of a headless Service is used as that pod', async () => {
    headless('10.0.0.1');
    await watch();
    slices.fail(forbidden);
    await turn();
    expect(listener.keys).toBe('10.0.0.1:80');
    expect(modes[0]).toMatchObject({ mode: 'dns' });
  });

  it('about which SRV says nothing is used as a cluster IP', async () => {
    for (const answer of ['ENODATA', 'ESERVFAIL', [{ name: `x.${orders}`, port: 0, priority: 0, weight: 0 }]]) {
      listener = new RecordingListener();
      client.answers[`A ${orders}.`] = ['10.96.0.7'];
      client.answers[`SRV ${orders}.`] = answer as string;
      await watch();
      slices.fail(forbidden);
      await turn();
      expect(listener.keys).toBe(slotKeys);
    }
  });

  it('found by port name is recognized as a pod or a cluster IP by the SRV record itself', async () => {
    client.answers[`SRV _http._tcp.${orders}.`] = [{ name: orders, port: 80, priority: 0, weight: 100 }];
    client.answers[`A ${orders}.`] = ['10.96.0.7'];
    await watch({ port: 'http' });
    slices.fail(forbidden);
    await turn();
    expect(listener.keys).toBe(slotKeys);
  });

  it('with a name outside the cluster is one endpoint', async () => {
    client.answers['A db.example.com.'] = ['10.0.0.1'];
    await watch({ host: 'db.example.com' });
    expect(listener.keys).toBe('10.0.0.1:80');
  });

  it('gives way to pods and returns as the Service changes', async () => {
    clusterIp();
    await watch();
    slices.fail(forbidden);
    await turn();
    headless('10.0.0.1', '10.0.0.2');
    await turn(5_000);
    clusterIp();
    await turn(5_000);
    expect(listener.events).toEqual([slotKeys, '10.0.0.1:80 10.0.0.2:80', slotKeys]);
    expect(modes.map(({ mode }) => mode)).toEqual(['name', 'dns', 'name']);
  });
});

describe('no answer at all', () => {
  it('fails with the result of each mode, never permanently, once', async () => {
    client.answers[`A ${orders}.`] = 'ECONNREFUSED';
    await watch();
    slices.fail(forbidden);
    await turn(60_000);
    expect(listener.events).toHaveLength(1);
    expect(listener.errors[0]).toMatchObject({ code: 'EVENKEEL_FORBIDDEN', permanent: false });
    expect(listener.errors[0]?.message).toContain('does not let us list endpointslices');
    expect(listener.errors[0]?.message).toContain('no name server listens (ECONNREFUSED)');
    headless('10.0.0.1');
    await turn(30_000);
    expect(listener.keys).toBe('10.0.0.1:80');
  });

  it('from DNS after it had answered keeps the set (D7)', async () => {
    headless('10.0.0.1');
    await watch();
    slices.fail(forbidden);
    await turn();
    client.answers[`A ${orders}.`] = 'ESERVFAIL';
    await turn(60_000);
    expect(listener.events).toHaveLength(2);
    expect(listener.keys).toBe('10.0.0.1:80');
    headless('10.0.0.1');
    await turn(30_000);
    expect(listener.events.at(-1)).toBe('fresh');
  });
});

describe('the names in DNS queries', () => {
  it('inside a cluster a name of two labels is never queried as a public one', async () => {
    await watch();
    slices.fail(forbidden);
    await turn(30_000);
    expect(new Set(client.asked)).toEqual(new Set([`A ${orders}.`]));
  });
});

/** Settings of DNS on a machine that is no pod. */
function outside(): DiscoveryOptions['dns'] {
  const files = { resolvConfPath: '/nowhere', namespacePath: '/nowhere' };
  const {
    host: _host,
    port: _port,
    srv: _srv,
    ...dns
  } = resolveDnsOptions({
    host: 'x',
    port: 1,
    client: () => client,
    clusterFiles: files,
  });
  return dns;
}

it('outside a cluster the name is queried as it is written', async () => {
  client.answers['A orders.shop.'] = ['192.0.2.1', '192.0.2.2'];
  await watch({ slices: async () => 'this is no pod', dns: outside() });
  await expect.poll(() => listener.keys).toBe('192.0.2.1:80 192.0.2.2:80');
});

it('outside a cluster a name that is not in DNS fails at once, with what to do, and is found if it appears', async () => {
  await watch({ slices: async () => 'this is no pod', dns: outside() });
  const advice =
    'not in a cluster, and DNS has no such name here. From a laptop: kubectl port-forward -n shop service/orders 80, ' +
    'then use localhost:80';
  await expect.poll(() => listener.events).toEqual(['∅', `fail orders.shop:80: ${advice}`]);
  await turn(20_000);
  expect(listener.events).toHaveLength(2);
  client.answers['A orders.shop.'] = ['192.0.2.1'];
  await turn(30_000);
  expect(listener.events.at(-1)).toBe('192.0.2.1:80');
});

it('a mode that cannot be created is skipped', async () => {
  headless('10.0.0.1');
  await watch({ slices: async () => 'this is no pod' });
  expect(modes[0]?.reason).toContain('EndpointSlices are not watched: this is no pod');
  await watch({
    slices: async () => {
      throw new TypeError('broken');
    },
  });
  expect(modes[1]?.reason).toContain('EndpointSlices are not watched: broken');
});

it('an invalid option for the first mode is a permanent failure: a lower mode would hide it', async () => {
  headless('10.0.0.1');
  await watch({
    slices: async () => {
      throw new EvenkeelError('EVENKEEL_OPTION', 'apiServer must be a URL');
    },
  });
  await turn(60_000);
  expect(listener.events).toEqual(['fail orders.shop:80: apiServer must be a URL']);
  expect([listener.errors[0]?.permanent, client.asked]).toEqual([true, []]);
});

it('close ends every mode and timer; nothing is published after it', async () => {
  headless('10.0.0.1');
  await watch();
  await turn(2_500);
  const before = listener.events.length;
  resolution.refresh();
  expect(slices.refreshes).toBe(1);
  resolution.close();
  resolution.close();
  expect([slices.watchers, clock.timers]).toEqual([0, 0]);
  await turn(60_000);
  expect(listener.events).toHaveLength(before);
});

it('close works before anything has begun', async () => {
  const starting = watch();
  resolution.close();
  await starting;
  expect([asked.length, slices.watchers, clock.timers, listener.events.length]).toEqual([0, 0, 0, 0]);
});
