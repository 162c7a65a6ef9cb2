import { credentials } from '@grpc/grpc-js';
import { roundRobin } from 'evenkeel';
import { expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, Echo, type EchoClient, ordersClient, say } from './support/client.js';
import { Pods } from './support/pods.js';
import { Shop } from './support/shop.js';
import { Traffic } from './support/traffic.js';

/** As most servers limit it. */
const maxStreams = 100;

/** All callers have a call running at any moment, and leave the machine to others. */
const DELAY_MS = 300;

const growing = { connections: { min: 1, max: 3 } };

/** Server streams that never end by themselves. */
function openStreams(client: EchoClient, count: number): () => void {
  const calls = Array.from({ length: count }, () => client.watch({}).on('error', () => {}));
  return () => {
    for (const call of calls) call.cancel();
  };
}

it('a pod with a limit of 100 streams gets 250 calls at once over three connections, and 100 from stock gRPC', async () => {
  await using pods = new Pods();
  const [pod] = await pods.start(1, { maxStreams });
  if (pod === undefined) throw new Error('no pod');
  const stock = new Echo(`127.0.0.1:${pod.port}`, credentials.createInsecure());
  const endStock = openStreams(stock, 250);
  await until('its limit is reached', async () => (await pod.stats()).running >= maxStreams);
  // The limit of the one connection stands in the way of every other call.
  await expect(say(stock, { deadline: Date.now() + 200 })).rejects.toMatchObject({ code: 4 });
  expect(await pod.stats()).toMatchObject({ running: maxStreams, open: 1 });
  endStock();
  stock.close();
  await until('stock is gone', async () => (await pod.stats()).open === 0);

  const { client } = ordersClient({ resolver: `static:127.0.0.1:${pod.port}`, ...growing });
  const end = openStreams(client, 250);
  await until('all calls run', async () => (await pod.stats()).running === 250);
  expect((await pod.stats()).open).toBe(3);
  await say(client);
  end();
  await until('none runs', async () => (await pod.stats()).running === 0);
  client.close();
});

it('a pod that allows 10 streams gets 10 of 40 calls at once and another pod the rest; stock gRPC sends it half', async () => {
  await using pods = new Pods();
  const [narrow] = await pods.start(1, { maxStreams: 10 });
  const [wide] = await pods.start(1);
  if (narrow === undefined || wide === undefined) throw new Error('no pods');
  const running = async (): Promise<number[]> => (await pods.stats()).map((stats) => stats.running);
  const stock = new Echo(`ipv4:127.0.0.1:${narrow.port},127.0.0.1:${wide.port}`, credentials.createInsecure(), {
    'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  });
  await until(
    'both are used',
    async () => (await Promise.all([say(stock), say(stock)])) && (await pods.stats()).every(({ open }) => open === 1),
  );
  const endStock = openStreams(stock, 40);
  await until('the other half runs', async () => (await running())[1] === 20);
  expect(await running()).toEqual([10, 20]);
  endStock();
  stock.close();
  await until('stock is gone', async () => (await pods.stats()).every(({ open }) => open === 0));

  const resolver = `static:127.0.0.1:${narrow.port},127.0.0.1:${wide.port}`;
  const { client, balancer } = ordersClient({ resolver, picker: roundRobin() });
  await connected(balancer, 2);
  expect(balancer.snapshot().endpoints.map(({ capacity }) => capacity)).toEqual([10, -1]);
  const end = openStreams(client, 40);
  await until('all calls run', async () => (await running()).join() === '10,30');
  end();
  client.close();
});

it('no call fails while pods with several connections are replaced; when one is killed, at most its running calls fail', async () => {
  await using pods = new Pods();
  await using shop = await Shop.start();
  const lifecycle = { graceMs: 1_000, cutMs: 20_000, maxStreams };
  const old = await pods.start(2, lifecycle);
  for (const pod of old) {
    await pod.set({ delayMs: DELAY_MS });
    shop.join(pod);
  }
  const { client, balancer } = ordersClient({ resolver: shop.resolver(), ...growing });
  await connected(balancer, 2);
  const traffic = new Traffic(client, 250);
  await until('every pod has grown', async () => (await pods.stats()).every(({ open }) => open >= 2));
  for (const pod of old) {
    const [fresh] = await pods.start(1, lifecycle);
    if (fresh === undefined) throw new Error('no pod');
    await fresh.set({ delayMs: DELAY_MS });
    shop.join(fresh);
    await connected(balancer, 3);
    shop.orders.updatePod(pod.name, { ready: false, terminating: true });
    pod.terminate();
    await pod.exited;
    shop.orders.removePod(pod.name);
  }
  const then = traffic.calls;
  await until('traffic went on', () => traffic.calls > then + 500);
  expect(traffic.failures).toEqual([]);

  const killed = pods.all[2];
  if (killed === undefined) throw new Error('no pod');
  await until('calls run there', async () => (await killed.stats()).running > 0);
  killed.kill();
  const atKill = traffic.calls;
  await until('traffic goes on with one pod', () => traffic.calls > atKill + 750);
  const { failures } = await traffic.stop();
  // Only calls that ran there may fail, one for each caller at most: a server that dies does not say what it began.
  expect(failures.length).toBeLessThanOrEqual(250);
  expect(failures.filter((failure) => !failure.startsWith('14: '))).toEqual([]);
  client.close();
});
