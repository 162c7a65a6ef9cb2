/**
 * Sends a request to each given port through the built package, prints the responses and does nothing more. It does not close its
 * dispatcher: the process has to end by itself. `none` sends nothing, `fetch` uses createFetch, `agent` uses the global fetch over
 * createAppAgent and also calls the first port by its address.
 */
import { staticEndpoints } from 'evenkeel';
import { createAppAgent, createDispatcher, createFetch } from 'evenkeel/undici';
import { setGlobalDispatcher } from 'undici';

const [how, ...ports] = process.argv.slice(2);
const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port: Number(port) })));
const target = 'http://orders.shop:8080';

if (how === 'fetch') {
  const fetchOrders = createFetch(target, { resolver });
  for (const _ of ports) console.log((await fetchOrders('/')).status);
} else if (how === 'agent') {
  // Nothing listens there.
  const discovery = { dns: { clusterDomain: 'cluster.local', servers: ['127.0.0.1:1'] } };
  const services = ({ hostname }) => hostname === 'orders.shop' || undefined;
  setGlobalDispatcher(createAppAgent({ discovery, services, options: () => ({ resolver }) }));
  for (const _ of ports) console.log((await fetch(target)).status);
  console.log((await fetch(`http://127.0.0.1:${ports[0]}/`)).status);
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
