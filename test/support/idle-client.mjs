/**
 * Sends a request per port given, through the built package, prints what came back and does nothing more. It does not
 * close its dispatcher: the process has to end by itself. `none` sends nothing, `fetch` uses createFetch.
 */
import { staticEndpoints } from 'evenkeel';
import { createDispatcher, createFetch } from 'evenkeel/undici';

const [how, ...ports] = process.argv.slice(2);
const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port: Number(port) })));
const target = 'http://orders.shop:8080';

if (how === 'fetch') {
  const fetchOrders = createFetch(target, { resolver });
  for (const _ of ports) console.log((await fetchOrders('/')).status);
} else {
  const orders = createDispatcher(target, { resolver });
  await orders.balancer.ready();
  if (how === 'request') {
    for (const _ of ports) {
      const { statusCode, body } = await orders.request({ path: '/', method: 'GET' });
      await body.dump();
      console.log(statusCode);
    }
  }
}
console.log('done');
