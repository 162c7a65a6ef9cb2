// @ts-check
/**
 * Three pods with a stream to each, and one of them is replaced.
 *
 *   node examples/rsocket/demo.js
 */
import { roundRobin } from 'evenkeel';
import { connectedTo, countsOf, startService } from '../cluster.js';
import { createRSocket } from './adapter/index.js';

const service = await startService('orders', new URL('pod.js', import.meta.url));
// In a pod `createRSocket('orders.shop:7000')` is enough.
const orders = createRSocket('orders.shop:7000', { resolver: service.resolver, picker: roundRobin() });

/** Asks once: who answered? @returns {Promise<string>} */
const ask = () =>
  new Promise((resolve, reject) => {
    const receiver = {
      onNext: (/** @type {import('rsocket-core').Payload} */ { data }) => resolve(String(data)),
      onError: reject,
      onComplete() {},
      onExtension() {},
    };
    // It may be asked twice: if its connection dies, another pod is asked.
    orders.requestResponse({ data: Buffer.from('order 42') }, receiver, { idempotent: true });
  });

/** Asks `count` times and says who answered how often. @param {number} count */
async function askOften(count) {
  const answers = [];
  for (let asked = 0; asked < count; asked++) answers.push(await ask());
  return countsOf(answers);
}

await Promise.all(['anna', 'bert', 'cleo'].map(service.start));
await connectedTo(orders, 3);

/** A stream to each pod. */
const streams = Array.from({ length: 3 }, () => {
  const stream = { pod: '', payloads: 0, ended: '' };
  const requested = orders.requestStream({ data: Buffer.from('changes') }, 1, {
    onNext({ data }) {
      stream.pod = String(data);
      stream.payloads++;
    },
    onComplete: () => (stream.ended = 'completed'),
    onError: (error) => (stream.ended = error.message),
    onExtension() {},
  });
  return { stream, more: () => requested.request(10) };
});
console.log('three pods:          ', await askOften(300));

await service.start('dora');
await connectedTo(orders, 4);
service.leave('anna');
await connectedTo(orders, 3);
// Gone from the Service, it still serves its stream.
for (const { more } of streams) more();
const stopped = service.stop('anna');
console.log('anna is replaced:    ', await askOften(300));
await stopped;
for (const { stream } of streams.sort((a, b) => a.stream.pod.localeCompare(b.stream.pod))) {
  console.log(`  the stream of ${stream.pod}: ${stream.payloads} payloads, ${stream.ended || 'goes on'}`);
}

await orders.close(new Error('the example is over'));
await service.close();
