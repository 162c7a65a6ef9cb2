import { createClient } from '@connectrpc/connect';
import { FakeResolver } from 'evenkeel/testing';
import { expect, it } from 'vitest';
import { closedAfterEach } from '../../support/opened.js';
import { ConnectPod } from '../../support/pods/connect-pods.js';
import { Orders } from '../../support/pods/orders-service.mjs';
import { until } from '../../support/until.js';
import { connected, type OrdersClient, ordersOver, transportOf } from './support/orders.js';

const PROOF = process.env.EVENKEEL_PROOF === '1';

/** Calls, `callers` at a time, one after the other each, until `stop`; every other caller reads streams. */
class Traffic {
  calls = 0;
  readonly failures: string[] = [];
  #stopping = false;
  readonly #callers: Promise<void>[];

  constructor(orders: OrdersClient, callers: number) {
    this.#callers = Array.from({ length: callers }, (_, index) => this.#call(orders, index % 2 === 1));
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#callers);
  }

  async #call(orders: OrdersClient, streams: boolean): Promise<void> {
    while (!this.#stopping) {
      try {
        if (streams) {
          let messages = 0;
          for await (const { value } of orders.count({ value: 'count 20' })) if (value !== '') messages++;
          if (messages !== 20) throw new Error(`only ${messages} messages`);
        } else await orders.say({ value: PROOF ? 'wait 5' : 'wait 50' });
      } catch (error) {
        this.failures.push(String(error));
      }
      this.calls++;
    }
  }
}

const open = closedAfterEach();

async function start(): Promise<ConnectPod> {
  const pod = await ConnectPod.start({ maxStreams: 100 });
  open.push(pod);
  return pod;
}

const PODS = PROOF ? 10 : 3;
const CALLERS = 40;

it('no call fails while pods are replaced, unary or stream; a killed pod fails at most its running calls; stock Connect stays with one pod', async () => {
  const pods: ConnectPod[] = [];
  for (let pod = 0; pod < PODS; pod++) pods.push(await start());
  const endpoints = () => pods.map(({ endpoint }) => endpoint);

  const stock = createClient(Orders, transportOf('Connect', `http://127.0.0.1:${pods[0]?.endpoint.port}`));
  const alone = new Traffic(stock, CALLERS);
  const resolver = new FakeResolver();
  const { orders, manager, attempts } = await ordersOver(pods, 'Connect', { resolver });
  open.push(manager);
  resolver.update(...endpoints());
  await connected(manager, PODS);
  const traffic = new Traffic(orders, CALLERS);
  await until('traffic flows', () => traffic.calls > 300 && alone.calls > 0);
  for (let replaced = 0; replaced < PODS; replaced++) {
    pods.push(await start());
    resolver.update(...endpoints());
    await connected(manager, PODS + 1);
    const leaving = pods.shift();
    resolver.update(...endpoints());
    await leaving?.command('shutdown');
    await until('nothing runs there', () => leaving?.stats.running === 0);
  }
  await connected(manager, PODS);
  const then = traffic.calls;
  await until('traffic goes on', () => traffic.calls > then + 300);
  expect(traffic.failures).toEqual([]);
  // Its pod is gone, and it knows no other.
  await until('stock fails', () => alone.failures.length > 0);
  await alone.stop();

  const killed = pods[0];
  await until('calls run there', () => (killed?.stats.running ?? 0) > 0);
  const running = attempts.length;
  await killed?.kill();
  const atKill = traffic.calls;
  await until('traffic goes on with the others', () => traffic.calls > atKill + 300);
  await traffic.stop();
  // A pod that dies does not say what it began, so only calls that ran there may fail: one for each caller at most.
  expect(traffic.failures.length).toBeLessThanOrEqual(CALLERS);
  const failed = attempts.slice(running).filter(({ outcome: { kind } }) => kind === 'failure');
  for (const { endpoint } of failed) expect(endpoint.port).toBe(killed?.endpoint.port);
});
