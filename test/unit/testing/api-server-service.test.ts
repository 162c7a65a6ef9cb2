import { describe, expect, it } from 'vitest';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import type { EndpointSliceObject } from '../../servers/index.js';
import { ObjectStore, type Pod, ServiceController, type ServiceOptions, type StoreEvent } from '../../servers/index.js';

function service(options: Partial<ServiceOptions> = {}): {
  controller: ServiceController;
  store: ObjectStore;
  slices: () => EndpointSliceObject[];
  events: StoreEvent[];
} {
  const store = new ObjectStore(1_000);
  const controller = new ServiceController(store, seededRng(7), 'shop', 'orders', {
    ports: [{ name: 'http', port: 80, targetPort: 8080 }],
    ...options,
  });
  const events: StoreEvent[] = [];
  store.subscribe((event) => events.push(event));
  const slices = (): EndpointSliceObject[] =>
    store.list('endpointslices', 'shop').map((stored) => stored.object as EndpointSliceObject);
  return { controller, store, slices, events };
}

const pods = (count: number, more: Partial<Pod> = {}): Pod[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `orders-${index}`,
    address: `10.0.${index >> 8}.${index & 255}`,
    ...more,
  }));

describe('ServiceController', () => {
  it('a Service without pods has one slice with null lists', () => {
    const { slices, controller } = service();
    expect(slices()).toHaveLength(1);
    expect(slices()[0]).toMatchObject({ endpoints: null, ports: null });
    controller.setPods(pods(1));
    controller.setPods([]);
    expect(slices()).toHaveLength(1);
    expect(slices()[0]).toMatchObject({ endpoints: null, ports: null });
  });

  it('puts up to 100 endpoints into a slice and never rebalances slices', () => {
    const { slices, controller } = service();
    controller.setPods(pods(250));
    expect(
      slices()
        .map((slice) => slice.endpoints?.length)
        .sort(),
    ).toEqual([100, 100, 50]);
    controller.setPods(pods(250).filter((_, index) => index % 2 === 0));
    expect(
      slices()
        .map((slice) => slice.endpoints?.length)
        .sort(),
    ).toEqual([25, 50, 50]);
  });

  it('writes conditions as the controller does', () => {
    const { slices, controller } = service();
    controller.setPods([
      { name: 'a', address: '10.0.0.1' },
      { name: 'b', address: '10.0.0.2', ready: false },
      { name: 'c', address: '10.0.0.3', terminating: true },
      { name: 'd', address: '10.0.0.4', ready: false, terminating: true },
    ]);
    expect(slices()[0]?.endpoints?.map((endpoint) => endpoint.conditions)).toEqual([
      { ready: true, serving: true, terminating: false },
      { ready: false, serving: false, terminating: false },
      { ready: false, serving: true, terminating: true },
      { ready: false, serving: false, terminating: true },
    ]);
  });

  it('publishNotReadyAddresses says ready whatever the probes report', () => {
    const { slices, controller } = service({ publishNotReadyAddresses: true });
    controller.setPods([{ name: 'a', address: '10.0.0.1', ready: false, terminating: true }]);
    expect(slices()[0]?.endpoints?.[0]?.conditions).toEqual({ ready: true, serving: false, terminating: true });
  });

  it('a named targetPort with different numbers has a slice per number; a pod without it a slice without ports', () => {
    const { slices, controller } = service({ ports: [{ name: 'http', port: 80, targetPort: 'web' }] });
    controller.setPods([
      { name: 'a', address: '10.0.0.1', ports: { web: 8080 } },
      { name: 'b', address: '10.0.0.2', ports: { web: 9090 } },
      { name: 'c', address: '10.0.0.3' },
    ]);
    const byPort = slices().map((slice) => [slice.ports?.[0]?.port ?? null, slice.endpoints?.length]);
    expect(byPort).toEqual(
      expect.arrayContaining([
        [8080, 1],
        [9090, 1],
        [null, 1],
      ]),
    );
  });

  it('IPv4 and IPv6 pods are in separate slices', () => {
    const { slices, controller } = service();
    controller.setPods([
      { name: 'a', address: '10.0.0.1' },
      { name: 'b', address: 'fd00::1' },
    ]);
    expect(
      slices()
        .map((slice) => slice.addressType)
        .sort(),
    ).toEqual(['IPv4', 'IPv6']);
  });

  it('a pod with two addresses is in a slice of each family, with one uid; each slice is written separately', () => {
    const { slices, controller, events } = service();
    controller.setPods([{ name: 'a', address: '10.0.0.1', otherAddress: 'fd00::1' }]);
    const listed = slices().map(({ addressType, endpoints }) => [
      addressType,
      endpoints?.map(({ addresses, targetRef }) => [addresses, targetRef?.uid]),
    ]);
    expect(listed.sort()).toEqual([
      ['IPv4', [[['10.0.0.1'], 'uid-a']]],
      ['IPv6', [[['fd00::1'], 'uid-a']]],
    ]);
    events.length = 0;
    controller.updatePod('a', { ready: false });
    expect(events).toHaveLength(2);
    controller.setPods([{ name: 'a', address: '10.0.0.1' }]);
    expect(slices().map(({ addressType }) => addressType)).toEqual(['IPv4']);
  });

  it('creates before updates before deletes', () => {
    const { controller, events } = service({ maxEndpointsPerSlice: 1 });
    controller.setPods(pods(2));
    events.length = 0;
    controller.setPods([
      { name: 'orders-0', address: '10.9.9.9' },
      { name: 'new', address: 'fd00::2' },
    ]);
    expect(
      events.map((event) => (event.before === undefined ? 'create' : event.after === undefined ? 'delete' : 'update')),
    ).toEqual(['create', 'update', 'delete']);
  });

  it('writes only the slices that changed', () => {
    const { controller, events } = service();
    controller.setPods(pods(250));
    events.length = 0;
    controller.updatePod('orders-120', { ready: false });
    controller.setPods(controller.pods);
    expect(events).toHaveLength(1);
    controller.removePod('orders-120');
    controller.putPod({ name: 'late', address: '10.0.9.9' });
    expect(events).toHaveLength(3);
  });

  it('writes hints by zone, or by zone and node', () => {
    const zone = service({ trafficDistribution: 'PreferSameZone' });
    zone.controller.setPods(pods(1, { zone: 'z1', nodeName: 'n1' }));
    expect(zone.slices()[0]?.endpoints?.[0]?.hints).toEqual({ forZones: [{ name: 'z1' }] });
    const node = service({ trafficDistribution: 'PreferSameNode' });
    node.controller.setPods(pods(1, { zone: 'z1', nodeName: 'n1' }));
    expect(node.slices()[0]?.endpoints?.[0]?.hints).toEqual({ forZones: [{ name: 'z1' }], forNodes: [{ name: 'n1' }] });
  });

  it('a changed targetPort changes the slices', () => {
    const { controller, slices } = service();
    controller.setPods(pods(1));
    controller.setPorts([{ name: 'http', port: 80, targetPort: 9999 }]);
    expect(slices().map((slice) => slice.ports?.[0]?.port)).toEqual([9999]);
  });

  it('delete removes the slices as well', () => {
    const { controller, slices, store } = service();
    controller.setPods(pods(150));
    controller.delete();
    expect(slices()).toEqual([]);
    expect(store.get('services', 'shop', 'orders')).toBeUndefined();
  });
});
