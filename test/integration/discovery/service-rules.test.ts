import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServiceController } from '../../servers/index.js';
import { type DiscoveryWatch, DiscoveryWorld } from '../../support/fixtures/discovery-world.js';

const clusterIP = '10.96.0.7';
const ports = [{ name: 'http', port: 80, targetPort: 8080 }];
const pods = [
  { name: 'a', address: '10.0.0.1', nodeName: 'node-a' },
  { name: 'b', address: '10.0.0.2', nodeName: 'node-b' },
  { name: 'c', address: '10.0.0.3', nodeName: 'node-b' },
];
let world: DiscoveryWorld;
const watches: DiscoveryWatch[] = [];

const watch = (target = 'orders.shop:80'): DiscoveryWatch => {
  const started = world.watch(target);
  watches.push(started);
  return started;
};
/** Writes the Service object with these rules. */
const say = (rules: object): void => {
  world.api.services.put({
    metadata: { name: 'orders', namespace: 'shop' },
    spec: { type: 'ClusterIP', clusterIP, ports, selector: { app: 'orders' }, ...rules },
  });
};
const serviceWith = (rules: object): ServiceController => {
  const controller = world.api.service('shop', 'orders', { ports });
  controller.setPods(pods);
  say(rules);
  world.dns.kubernetes.set({ namespace: 'shop', name: 'orders', clusterIPs: [clusterIP], ports });
  return controller;
};

beforeEach(async () => {
  world = await DiscoveryWorld.create();
  vi.stubEnv('NODE_NAME', 'node-a');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const started of watches.splice(0)) started.close();
  await world[Symbol.asyncDispose]();
});

describe('internalTrafficPolicy: Local, read from the API server', () => {
  it('leaves the pods of this node, and none once the node has none', async () => {
    const orders = serviceWith({ internalTrafficPolicy: 'Local' });
    const one = watch();
    await one.until('the pod of this node', () => one.addresses === '10.0.0.1:8080');
    orders.removePod('a');
    await one.until('none', () => one.addresses === '');
    orders.putPod({ name: 'd', address: '10.0.0.4', nodeName: 'node-a' });
    await one.until('the new pod of this node', () => one.addresses === '10.0.0.4:8080');
    expect(one.mode).toBe('slices');
  });

  it.each(['orders.shop:80', 'orders.shop:http'])(
    '%s: holds while the Service is deleted and created again: no pod of another node is ever listed',
    async (target) => {
      const orders = serviceWith({ internalTrafficPolicy: 'Local' });
      const one = watch(target);
      await one.until('the pod of this node', () => one.addresses === '10.0.0.1:8080');
      const before = one.listener.events.length;
      orders.delete();
      await one.until('the word', () => one.listener.errors.length > 0);
      serviceWith({ internalTrafficPolicy: 'Local' });
      await one.until('that it is over', () => one.listener.events.at(-1) === 'fresh');
      const reads = world.api.counts.gets;
      say({ internalTrafficPolicy: 'Cluster' });
      world.api.compact();
      world.api.disturb('end');
      await one.until(
        'the next list and the object',
        () => world.api.counts.gets > reads && (one.addresses?.length ?? 0) > 20,
      );
      expect(one.listener.events.slice(before).filter((event) => event.startsWith('10.'))).toHaveLength(1);
    },
  );

  it('is left to kube-proxy where the node is unknown', async () => {
    vi.stubEnv('NODE_NAME', undefined);
    serviceWith({ internalTrafficPolicy: 'Local' });
    const one = watch();
    await one.until('the cluster IP', () => one.addresses?.startsWith(`${clusterIP}:80`) === true);
    expect(one.mode).toBe('name');
  });

  it('that is set or taken back while the Service is watched is followed from the next list on', async () => {
    serviceWith({});
    const one = watch();
    const all = '10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8080';
    await one.until('all pods', () => one.addresses === all);
    for (const [policy, expected] of [
      ['Local', '10.0.0.1:8080'],
      ['Cluster', all],
    ] as const) {
      say({ internalTrafficPolicy: policy });
      // The version that the watch would resume from is gone: it must list.
      world.api.compact();
      world.api.disturb('end');
      await one.until(policy, () => one.addresses === expected);
    }
  });
});

it('a Service that becomes an ExternalName is left to DNS from the next list on, although its slices stay', async () => {
  serviceWith({});
  const one = watch();
  await one.until('all pods', () => one.mode === 'slices');
  world.api.services.put({
    metadata: { name: 'orders', namespace: 'shop' },
    spec: { type: 'ExternalName', externalName: 'orders.example.com' },
  });
  world.dns.kubernetes.set({ namespace: 'shop', name: 'orders', externalName: 'orders.example.com' });
  world.dns.zone.set('orders.example.com', { a: ['192.0.2.1', '192.0.2.2'] });
  world.api.compact();
  world.api.disturb('end');
  await one.until('the addresses of the name', () => one.addresses === '192.0.2.1:80 192.0.2.2:80', 500);
});

describe('sessionAffinity: ClientIP, read from the API server', () => {
  it('is one pod of all, and another once that is unready or gone', async () => {
    const orders = serviceWith({ sessionAffinity: 'ClientIP' });
    const one = watch();
    const named = (): string => orders.pods.find(({ address }) => `${address}:8080` === one.addresses)?.name ?? '';
    await one.until('one pod', () => named() !== '');
    const first = named();
    orders.updatePod(first, { ready: false });
    await one.until('another pod', () => !['', first].includes(named()));
    const second = named();
    orders.removePod(second);
    await one.until('the third', () => !['', first, second].includes(named()));
    expect(one.listener.endpoints).toHaveLength(1);
  });
});
