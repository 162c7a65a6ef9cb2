// @ts-check
/**
 * Everything on one machine: a cluster of three RabbitMQ brokers, an API server for tests in place of Kubernetes, an application that
 * publishes with confirms and one that consumes, and a rolling update of a broker meanwhile.
 *
 *   node examples/amqp/demo.js
 */
import { endpointSlices } from 'evenkeel/kubernetes';
import { missing, startBrokers } from './brokers.js';
import { openBrokers } from './main.js';

if (missing !== undefined) {
  console.log(missing);
  process.exit(0);
}
const cluster = await startBrokers();

const { brokers, connectManager } = openBrokers({
  // When a broker leaves, its connections move one by one, here within half a second.
  leaveSpreadMs: 500,
  // Much faster than you would want outside an example.
  rebalance: { ratioPerMinute: 20 },
  // Leave this line out in a pod: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: cluster.apiUrl,
    namespace: 'shop',
    service: 'rabbit',
    port: 'amqp',
    allowAddresses: ['loopback'],
  }),
});

const publishing = connectManager();
const consuming = Array.from({ length: 5 }, connectManager);

const orders = publishing.createChannel({
  setup: (channel) => channel.assertQueue('orders', { durable: true, arguments: { 'x-queue-type': 'quorum' } }),
});
orders.on('error', console.error);
await orders.waitForConnect();

/** Messages that a consumer has acknowledged. @type {Set<string>} */
const consumed = new Set();
for (const manager of consuming) {
  const channel = manager.createChannel({ confirm: false });
  channel.on('error', console.error);
  await channel.consume(
    'orders',
    (message) => {
      consumed.add(String(message.content));
      channel.ack(message);
    },
    { prefetch: 20 },
  );
}

/** Messages that a broker has confirmed. @type {string[]} */
const confirmed = [];
let isOver = false;

async function publish() {
  for (let number = 0; !isOver; ) {
    try {
      await orders.sendToQueue('orders', `order ${number}`, { persistent: true });
      confirmed.push(`order ${number++}`);
    } catch {
      // Refused, as a queue may while its leader changes: published again, like every message without a confirmation.
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

const shares = () =>
  Object.fromEntries(
    brokers.balancer
      .snapshot()
      .endpoints.filter(({ state }) => state === 'ready')
      .map(({ name, inFlight }) => [name, inFlight])
      .sort(),
  );

/** @param {(counts: number[]) => boolean} condition */
async function until(condition) {
  while (!condition(Object.values(shares()))) await new Promise((resolve) => setTimeout(resolve, 20));
}
/** @param {number[]} counts */
const total = (counts) => counts.reduce((sum, count) => sum + count, 0);

await until((counts) => counts.length === 3 && total(counts) === 6);
console.log('three brokers:       ', shares());

const publisher = publish();
await cluster.replace(0, async () => {
  await until((counts) => counts.length === 2 && total(counts) === 6);
  console.log('rabbit-0 terminates: ', shares());
});
await until((counts) => counts.length === 3 && Math.min(...counts) >= 1 && total(counts) === 6);
console.log('it is back:          ', shares());

isOver = true;
await publisher;
while (confirmed.some((order) => !consumed.has(order))) await new Promise((resolve) => setTimeout(resolve, 20));
console.log(
  'confirmed, and lost: ',
  confirmed.length > 0 ? confirmed.filter((order) => !consumed.has(order)).length : '?',
);

await brokers.close();
await cluster.close();
