import { type ClientOptions, credentials } from '@grpc/grpc-js';
import { type EndpointInit, type Resolver, roundRobin } from 'evenkeel';
import { serviceChannelOptions } from 'evenkeel/grpc-js';
import { FakeResolver } from 'evenkeel/testing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, Echo, ordersClient, say } from './support/client.js';
import { type Pod, Pods } from './support/pods.js';
import { Shop } from './support/shop.js';

let pods: Pods;
let shop: Shop;
const open: { close(): void }[] = [];

beforeEach(async () => {
  pods = new Pods();
  shop = await Shop.start();
});

afterEach(async () => {
  for (const client of open.splice(0)) client.close();
  await until('every connection of the pods is closed', async () =>
    (await pods.stats()).every(({ open }) => open === 0),
  );
  await pods.stop();
  await shop[Symbol.asyncDispose]();
});

async function orders(count: number, resolver: Resolver = shop.resolver()) {
  const made = ordersClient({ resolver, picker: roundRobin() });
  open.push(made.client);
  await connected(made.balancer, count);
  return made;
}

it('T1: a pod that leaves gets no new call and finishes its running calls', async () => {
  const [first, second] = (await pods.start(2)) as [Pod, Pod];
  for (const pod of pods.all) shop.join(pod);
  const { client, balancer } = await orders(2);
  const streams = [client.chat(), client.chat()];
  const received: string[][] = [[], []];
  for (const [index, stream] of streams.entries()) {
    stream.on('data', ({ text, pod }) => received[index]?.push(`${pod} ${text}`));
    stream.write({ text: 'before' });
  }
  await until('both streams are up', () => received.every(({ length }) => length === 1));
  expect(new Set(received.flat()).size).toBe(2);

  shop.orders.removePod(first.name);
  await until('it drains', () => balancer.snapshot().endpoints.some(({ state }) => state === 'draining'));
  for (let call = 0; call < 10; call++) expect((await say(client)).pod).toBe(second.name);

  const ended = streams.map((stream) => new Promise((resolve) => stream.on('status', resolve)));
  for (const stream of streams) {
    stream.write({ text: 'after' });
    stream.end();
  }
  expect(await Promise.all(ended)).toMatchObject([{ code: 0 }, { code: 0 }]);
  expect(received.map((lines) => lines.map((line) => line.split(' ')[1]))).toEqual([
    ['before', 'after'],
    ['before', 'after'],
  ]);
});

it('T2: a pod whose readiness flaps keeps its connection', async () => {
  const [first] = (await pods.start(2)) as [Pod];
  for (const pod of pods.all) shop.join(pod);
  const { client, balancer } = await orders(2);
  for (let flap = 0; flap < 5; flap++) {
    shop.orders.updatePod(first.name, { ready: false });
    await until('it drains', () => balancer.snapshot().endpoints.some(({ state }) => state === 'draining'));
    shop.orders.updatePod(first.name, { ready: true });
    await connected(balancer, 2);
  }
  const names = await Promise.all(Array.from({ length: 4 }, () => say(client)));
  expect(new Set(names.map(({ pod }) => pod)).size).toBe(2);
  expect((await pods.stats()).map(({ connections }) => connections)).toEqual([1, 1]);
});

it('U8: an unchanged pod keeps its connection through 1,000 slice events', async () => {
  const [steady, ...others] = (await pods.start(3)) as [Pod, Pod, Pod];
  for (const pod of pods.all) shop.join(pod);
  const { client, balancer } = await orders(3);
  const zones = ['a', 'b', 'c'];
  for (let update = 0; update < 1_000; update++) {
    const other = others[update % 2] as Pod;
    if (update % 3 === 0) shop.orders.updatePod(steady.name, { zone: zones[update % zones.length] as string });
    else if (update % 3 === 1) shop.orders.updatePod(other.name, { ready: update % 2 === 0 });
    else shop.orders.updatePod(other.name, { zone: zones[update % zones.length] as string });
    if (update % 50 === 0) await say(client);
  }
  for (const pod of pods.all) shop.join(pod);
  const { revision } = shop.api;
  expect(revision).toBeGreaterThan(1_000);
  await connected(balancer, 3);
  await Promise.all(Array.from({ length: 6 }, () => say(client)));
  expect((await steady.stats()).connections).toBe(1);
});

it('U8: an unchanged pod keeps its connection through 1,000 sets that change weights, zones and neighbours', async () => {
  await pods.start(3);
  const resolver = new FakeResolver();
  resolver.update(...pods.endpoints);
  const { client, balancer } = await orders(3, resolver);
  const [steady, left, right] = pods.endpoints as [EndpointInit, EndpointInit, EndpointInit];
  for (let update = 1; update <= 1_000; update++) {
    const changed = { ...steady, weight: 1 + (update % 7), zone: `zone-${update % 3}` };
    resolver.update(changed, update % 2 === 0 ? left : right, { ...left, conditions: { ready: update % 4 === 0 } });
    await new Promise(setImmediate);
    if (update % 100 === 0) await say(client);
  }
  expect(balancer.snapshot().version).toBe(1_001);
  expect((await (pods.all[0] as Pod).stats()).connections).toBe(1);
});

it('U7: another pod at the same address gets a connection of its own', async () => {
  const [only] = (await pods.start(1)) as [Pod];
  shop.join(only, { name: 'orders-a' });
  const { client, balancer } = await orders(1);
  await say(client);
  for (let pod = 1; pod <= 3; pod++) {
    shop.orders.setPods([{ name: `orders-${pod}`, address: only.host, ports: { grpc: only.port } }]);
    await until('the new pod is connected to', () =>
      balancer.snapshot().endpoints.some(({ key, state }) => state === 'ready' && !key.includes('orders-a')),
    );
    await until('by a connection of its own', async () => (await only.stats()).connections === 1 + pod);
    await say(client);
  }
  // Said again, it is the same pod.
  shop.orders.updatePod('orders-3', { zone: 'b' });
  await say(client);
  expect((await only.stats()).connections).toBe(4);
});

it.each(['orders.shop:50051', 'dns:///orders.shop:50051'])(
  'a client for %s is balanced through its options alone, as needed by libraries that build the address from host and port',
  async (address) => {
    for (const pod of await pods.start(2)) shop.join(pod);
    // What google-gax passes on of its option 'grpc.channelFactoryOverride'.
    const options = serviceChannelOptions({ resolver: shop.resolver(), picker: roundRobin() });
    const { channelFactoryOverride } = options as Required<ClientOptions>;
    const client = new Echo(address, credentials.createInsecure(), { channelFactoryOverride });
    open.push(client);
    const answers = [];
    for (let call = 0; call < 10; call++) answers.push(await say(client));
    expect(new Set(answers.map(({ pod }) => pod)).size).toBe(2);
    expect(answers.map(({ authority }) => authority)).toEqual(answers.map(() => 'orders.shop:50051'));
  },
);
