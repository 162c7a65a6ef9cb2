// @ts-check
/**
 * Three pods, a fourth joins, two are replaced under traffic.
 *
 *   node examples/axios/demo.js
 */
import { roundRobin } from 'evenkeel';
import { connectedTo, countsOf, startService } from '../cluster.js';
import { createOrders } from './main.js';

const service = await startService('orders', new URL('pod.js', import.meta.url));
// For counts to compare: exactly even.
const { agent, orders } = createOrders({ resolver: service.resolver, picker: roundRobin() });

/** Sends `count` requests, ten at a time, every other one a POST; counts the answers of each pod. @param {number} count */
async function ask(count) {
  const answers = [];
  for (let asked = 0; asked < count; asked += 10) {
    const batch = Array.from({ length: 10 }, (_, index) =>
      index % 2 === 0 ? orders.get(`/v1/orders/${asked + index}`) : orders.post('/v1/orders', { article: index }),
    );
    for (const { data } of await Promise.all(batch)) answers.push(data.pod);
  }
  return countsOf(answers);
}

await Promise.all(['anna', 'bert', 'cleo'].map(service.start));
await connectedTo(agent, 3);
console.log('three pods:             ', await ask(300));

await service.start('dora');
await connectedTo(agent, 4);
console.log('a fourth one joined:    ', await ask(400));

const rolled = Promise.all([service.start('emil'), service.stop('anna'), service.stop('bert')]);
console.log('two replaced meanwhile: ', await ask(300));
await rolled;
await connectedTo(agent, 3);
console.log('after that:             ', await ask(300));

await agent.close();
await service.close();
