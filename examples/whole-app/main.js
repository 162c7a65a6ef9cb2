// @ts-check
/**
 * One line balances a whole app: its fetch calls stay as they are, and requests to Services reach all their pods.
 *
 *   node examples/whole-app/main.js
 */
import { createAppAgent } from 'evenkeel/undici';
import { setGlobalDispatcher } from 'undici';
import { page } from './app.js';
import { startCluster } from './cluster.js';

const cluster = await startCluster();
const bank = `http://127.0.0.1:${await cluster.start('bank')}`;
await Promise.all(['anna', 'bert', 'cleo'].map(cluster.orders.add));
await Promise.all(['xaver', 'yvonne'].map(cluster.stock.add));

// This is the line. In a pod it is createAppAgent(), without options.
const agent = createAppAgent({ discovery: cluster.discovery });
setGlobalDispatcher(agent);

/** Makes pages and prints who answered how often. @param {string} title @param {number} pages */
async function run(title, pages) {
  /** @type {Record<'orders' | 'stock' | 'outside', Record<string, number>>} */
  const counts = { orders: {}, stock: {}, outside: {} };
  /** @param {'orders' | 'stock' | 'outside'} of @param {{ pod: string }} answer */
  const count = (of, { pod }) => {
    const answers = counts[of];
    answers[pod] = (answers[pod] ?? 0) + 1;
  };
  for (let made = 0; made < pages; made += 10) {
    const batch = Array.from({ length: 10 }, (_, index) => page(made + index, bank));
    for (const { order, stock, rate } of await Promise.all(batch)) {
      count('orders', order);
      count('stock', stock);
      count('outside', rate);
    }
  }
  console.log(title);
  for (const [of, answers] of Object.entries(counts)) {
    console.log(`  ${of.padEnd(8)}`, Object.fromEntries(Object.entries(answers).sort()));
  }
}

/** Waits until a Service has this many pods ready. @param {string} origin @param {number} pods */
async function connectedTo(origin, pods) {
  const ready = () =>
    agent.balancers
      .get(origin)
      ?.snapshot()
      .endpoints.filter(({ state }) => state === 'ready').length;
  while (ready() !== pods) await new Promise((resolve) => setTimeout(resolve, 10));
}

// The first request to a Service finds its pods; then connections to all of them are opened.
await page(0, bank);
await connectedTo('http://orders.shop', 3);
await connectedTo('http://stock.shop.svc.cluster.local:8080', 2);
await run('300 pages:', 300);

cluster.orders.kill('bert');
await cluster.stock.add('zoe');
await connectedTo('http://stock.shop.svc.cluster.local:8080', 3);
await run('one pod was killed, another joined:', 300);

console.log('what the agent knows:');
const { services, hosts } = agent.snapshot();
for (const { origin, balancer } of services) {
  console.log(
    `  balanced   ${origin}: ${balancer.endpoints.filter(({ state }) => state === 'ready').length} pods ready`,
  );
}
for (const { name, service } of hosts) console.log(`  by DNS     ${name} ${service ? 'is a Service' : 'is none'}`);

await agent.close();
await cluster.close();
