// @ts-check
/**
 * Three pods with a stream to each, and one of them is replaced.
 *
 *   node examples/connect/demo.js
 */
import { roundRobin } from 'evenkeel';
import { connectedTo, countsOf, startService } from '../cluster.js';
import { createOrders } from './main.js';

const service = await startService('orders', new URL('pod.js', import.meta.url));
const { orders, sessionManager } = createOrders({ resolver: service.resolver, picker: roundRobin() });

/** Asks `count` times and says who answered how often. @param {number} count */
async function ask(count) {
  const answers = [];
  for (let asked = 0; asked < count; asked++) answers.push((await orders.get({ value: '42' })).value);
  return countsOf(answers);
}

await Promise.all(['anna', 'bert', 'cleo'].map(service.start));
await connectedTo(sessionManager, 3);

/** A stream to each pod. */
const streams = Array.from({ length: 3 }, () => {
  const stream = { pod: '', state: 'goes on' };
  const read = async () => {
    for await (const { value } of orders.watch({ value: '42' })) stream.pod = value;
    stream.state = 'completed';
  };
  read().catch((error) => {
    stream.state = String(error);
  });
  return stream;
});
console.log('three pods:          ', await ask(300));

await service.start('dora');
await connectedTo(sessionManager, 4);
const stopped = service.stop('anna');
await connectedTo(sessionManager, 3);
console.log('anna is replaced:    ', await ask(300));
await stopped;
for (const { pod, state } of streams.sort((a, b) => a.pod.localeCompare(b.pod))) {
  console.log(`  the stream of ${pod}: ${state}`);
}

await Promise.all(['bert', 'cleo', 'dora'].map(service.stop));
await sessionManager.close();
await service.close();
