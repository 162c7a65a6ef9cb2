import { type AmqpConnectionManager, connect as connectManager } from 'amqp-connection-manager';
import { type Brokers, createBrokers } from 'evenkeel/amqp';
import { FakeResolver } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { noRabbitmq, type RabbitWorld, startBrokers, titled } from '../../support/databases/rabbitmq.js';
import { calledAfterEach } from '../../support/opened.js';
import { until } from '../../support/until.js';

/** In the suite one broker of three is replaced, with few messages; `npm run proof -- amqp` is the promise at its full size. */
const isProof = process.env.EVENKEEL_PROOF === '1';
const size = isProof
  ? { replaced: [0, 1, 2], perSecond: 500, connections: 10, beforeMs: 5_000, evenMs: 300_000, ratioPerMinute: 0.1 }
  : { replaced: [0], perSecond: 100, connections: 10, beforeMs: 500, evenMs: 60_000, ratioPerMinute: 20 };

const open = calledAfterEach();

const counts = (brokers: Brokers): number[] =>
  brokers.balancer
    .snapshot()
    .endpoints.filter(({ state }) => state === 'ready')
    .map(({ inFlight }) => inFlight);

const elapsed = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Publishes at a rate, and notes when which message was confirmed. */
class Publisher {
  readonly confirmed: { readonly id: number; readonly atMs: number }[] = [];
  readonly rejected: unknown[] = [];
  sent = 0;
  readonly #timer: NodeJS.Timeout;

  constructor(manager: AmqpConnectionManager, queue: string, perSecond: number) {
    const wrapper = manager.createChannel();
    wrapper.on('error', () => {});
    const beganMs = performance.now();
    this.#timer = setInterval(() => {
      while (this.sent < ((performance.now() - beganMs) * perSecond) / 1_000) {
        const id = this.sent++;
        wrapper.sendToQueue(queue, String(id), { persistent: true }).then(
          () => void this.confirmed.push({ id, atMs: performance.now() }),
          (error) => void this.rejected.push(error),
        );
      }
    }, 2);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await until('all are confirmed', () => this.confirmed.length + this.rejected.length === this.sent);
  }

  /** The longest time without a confirmation between these two moments, in ms. */
  gapMs(fromMs: number, toMs: number): number {
    let last = fromMs;
    let longest = 0;
    for (const { atMs } of this.confirmed) {
      if (atMs < fromMs || atMs > toMs) continue;
      longest = Math.max(longest, atMs - last);
      last = atMs;
    }
    return Math.max(longest, toMs - last);
  }
}

/** Returns when its connections had left. */
async function replace(world: RabbitWorld, resolver: FakeResolver, brokers: Brokers, index: number): Promise<number> {
  const others = world.endpoints.filter((_, other) => other !== index);
  // Its pod is terminating: the slices say so, its preStop hook drains it, and it gets SIGTERM.
  resolver.update(...others);
  await until('its connections have left', () => {
    const now = counts(brokers);
    return now.length === others.length && now.reduce((sum, count) => sum + count, 0) === size.connections;
  });
  const leftMs = performance.now();
  await world.at(index).drain();
  await world.at(index).stop();
  await world.at(index).start();
  await world.at(index).control('await_online_nodes', String(world.all.length));
  resolver.update(...world.endpoints);
  return leftMs;
}

describe.skipIf(noRabbitmq)(titled('brokers that are replaced'), () => {
  it(
    'durable quorum queue, persistent messages: no confirmed message is lost, publishing goes on, connections even out',
    async () => {
      const world = await startBrokers(3);
      open.push(() => world.close());
      const resolver = new FakeResolver();
      const brokers = createBrokers('amqp://rabbit.shop:5672', {
        resolver,
        leaveSpreadMs: 2_000,
        rebalance: { ratioPerMinute: size.ratioPerMinute },
      });
      open.push(() => brokers.close({ signal: AbortSignal.abort() }));
      resolver.update(...world.endpoints);
      const managers = Array.from({ length: size.connections }, () => brokers.connectManager(connectManager));
      for (const manager of managers) open.push(() => manager.close());
      await until('all are connected', () => managers.every((manager) => manager.isConnected()));

      const [first, ...others] = managers as [AmqpConnectionManager, ...AmqpConnectionManager[]];
      const setup = first.createChannel();
      setup.on('error', () => {});
      await setup.addSetup((channel: { assertQueue(name: string, options: object): Promise<unknown> }) =>
        channel.assertQueue('orders', { durable: true, arguments: { 'x-queue-type': 'quorum' } }),
      );
      await setup.waitForConnect();
      /** How often each message came. */
      const received = new Map<number, number>();
      for (const manager of others.slice(0, 3)) {
        const wrapper = manager.createChannel({ confirm: false });
        wrapper.on('error', () => {});
        await wrapper.consume(
          'orders',
          (message) => {
            const id = Number(message.content);
            received.set(id, (received.get(id) ?? 0) + 1);
            wrapper.ack(message);
          },
          { prefetch: 100 },
        );
      }
      const publisher = new Publisher(first, 'orders', size.perSecond);
      await until('it publishes', () => publisher.confirmed.length > (size.perSecond * size.beforeMs) / 1_000);
      /** The longest time without a confirmation while a broker was replaced, and of that while its connections left. */
      const gaps: number[] = [];
      const moving: number[] = [];
      for (const index of size.replaced) {
        const fromMs = performance.now();
        const leftMs = await replace(world, resolver, brokers, index);
        moving.push(Math.round(publisher.gapMs(fromMs, leftMs)));
        gaps.push(Math.round(publisher.gapMs(fromMs, performance.now())));
      }
      const afterRoll = counts(brokers);
      const evenFromMs = performance.now();
      const isEven = (): boolean => {
        const now = counts(brokers);
        return now.length === 3 && Math.max(...now) - Math.min(...now) <= 2;
      };
      if (isProof) await elapsed(size.evenMs);
      else await until('they are even', isEven, size.evenMs);
      const evenMs = performance.now() - evenFromMs;
      expect(isEven()).toBe(true);
      await publisher.stop();
      await until('all have arrived', () => publisher.confirmed.every(({ id }) => received.has(id))).catch(() => {});
      const lost = publisher.confirmed.filter(({ id }) => !received.has(id)).length;
      const twice = [...received.values()].filter((times) => times > 1).length;
      console.log(
        `amqp: sent ${publisher.sent}, confirmed ${publisher.confirmed.length}, rejected ${publisher.rejected.length}, ` +
          `received ${received.size}, of those more than once ${twice}, confirmed but lost ${lost}; longest gap per broker ` +
          `${gaps.join(', ')} ms, while connections moved ${moving.join(', ')} ms; connections after the roll ${afterRoll}, ${Math.round(evenMs / 1_000)} s later ${counts(brokers)}`,
      );
      expect(lost).toBe(0);
      expect(publisher.rejected).toEqual([]);
      expect(publisher.confirmed.length).toBe(publisher.sent);
      if (isProof) for (const gap of gaps) expect(gap).toBeLessThanOrEqual(2_000);
    },
    isProof ? 1_200_000 : 240_000,
  );
});
