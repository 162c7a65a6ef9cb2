import { expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { all, connected, type EchoClient, ordersClient } from './support/client.js';
import { Pods } from './support/pods.js';
import { Shop } from './support/shop.js';
import { Traffic } from './support/traffic.js';

/** Server streams that last about 1.5 s each, some always running; every one must arrive whole. */
class LongStreams {
  readonly failures: string[] = [];
  whole = 0;
  #stopping = false;
  readonly #running: Promise<void>[];

  constructor(client: EchoClient, count: number) {
    this.#running = Array.from({ length: count }, () => this.#stream(client));
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#running);
  }

  async #stream(client: EchoClient): Promise<void> {
    while (!this.#stopping) {
      try {
        const numbers = await all(client.count({ numbers: 30, pause_ms: 50 }));
        if (numbers.length !== 30) this.failures.push(`only ${numbers.length} numbers`);
        this.whole++;
      } catch (error) {
        this.failures.push(String(error));
      }
    }
  }
}

const PROOF = process.env.EVENKEEL_PROOF === '1';
const PODS = PROOF ? 10 : 2;
const STREAMS = PROOF ? 20 : 8;
const CALLS = PROOF ? 500 : 200;

it('no call fails while pods are replaced under load, unary or stream', async () => {
  await using pods = new Pods();
  await using shop = await Shop.start();
  const lifecycle = { graceMs: 300, cutMs: 20_000 };
  const old = await pods.start(PODS, lifecycle);
  for (const pod of old) shop.join(pod);
  const { client, balancer } = ordersClient({ resolver: shop.resolver() });
  await connected(balancer, PODS);

  // Elsewhere than in a proof all callers have a call running at any moment, too, and leave the machine to others.
  const traffic = new Traffic(client, 20, () => (PROOF ? {} : { text: 'wait 50' }));
  const streams = new LongStreams(client, STREAMS);
  await until('traffic flows', () => traffic.calls > CALLS);
  for (const pod of old) {
    const [fresh] = await pods.start(1, lifecycle);
    shop.join(fresh as (typeof old)[number]);
    // What the kubelet and the endpoints controller do: the slice says terminating, the process gets SIGTERM.
    shop.orders.updatePod(pod.name, { ready: false, terminating: true });
    pod.terminate();
    void pod.exited.then(() => shop.orders.removePod(pod.name));
  }
  await Promise.all(old.map(({ exited }) => exited));
  const then = traffic.calls;
  await until('traffic went on', () => traffic.calls > then + CALLS);
  // On a fast machine the pods are replaced before two streams of each caller have ended.
  await until('streams went on', () => streams.whole > 2 * STREAMS);
  const { failures, calls } = await traffic.stop();
  await streams.stop();

  expect(failures).toEqual([]);
  expect(streams.failures).toEqual([]);
  expect(calls).toBeGreaterThan(2 * CALLS);
  await connected(balancer, PODS);
  client.close();
});
