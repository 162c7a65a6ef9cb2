// @ts-check
/**
 * Three pods, a fourth joins, one is killed, two are replaced while a stream runs.
 *
 *   node examples/grpc/demo.js
 */
import { connectedTo, countsOf, startService } from '../cluster.js';
import { ordersClient } from './client.js';

const service = await startService('orders', new URL('server.js', import.meta.url));
/** The channel's balancer, once there is one. @type {{ balancer?: import('evenkeel/grpc-js').ChannelBalancer }} */
const channel = {};
const client = ordersClient('orders.shop:50051', {
  resolver: service.resolver,
  onBalancer: (balancer) => {
    channel.balancer = balancer;
  },
});

/** Asks for `count` orders, ten at a time, and counts the answers of each pod. @param {number} count */
async function ask(count) {
  const answers = [];
  for (let asked = 0; asked < count; asked += 10) {
    const orders = await Promise.all(Array.from({ length: 10 }, (_, index) => client.get(String(asked + index))));
    answers.push(...orders.map(({ pod }) => pod));
  }
  return countsOf(answers);
}

await Promise.all(['anna', 'bert', 'cleo'].map(service.start));
// A channel connects when it is first used, or asked to.
await channel.balancer?.ready();
await connectedTo(channel, 3);
console.log('three pods:             ', await ask(300));

await service.start('dora');
await connectedTo(channel, 4);
console.log('a fourth one joined:    ', await ask(400));

service.kill('bert');
console.log('one killed meanwhile:   ', await ask(300));
service.remove('bert');

const story = (async () => {
  const steps = [];
  for await (const { state, pod } of client.follow('7')) steps.push(`${state} (${pod})`);
  return steps.join(', ');
})();
const rolled = Promise.all([service.start('emil'), service.stop('anna'), service.stop('cleo')]);
console.log('two replaced meanwhile: ', await ask(300));
console.log('a stream of that time:  ', await story);
await rolled;
await connectedTo(channel, 2);
console.log('after that:             ', await ask(300));
client.close();
await service.close();
