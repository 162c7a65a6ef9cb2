import { staticEndpoints } from 'evenkeel';
import { createDispatcher, createFetch } from 'evenkeel/undici';

const resolver = staticEndpoints([{ address: '10.0.0.1', port: 80 }]);

// A drop-in for the global one, whatever types of fetch the project has.
const orders = createFetch('http://orders.shop:8080', { resolver });
const dropIn: typeof fetch = orders;
const response: Promise<Response> = orders('/v1/orders/42', { method: 'POST', body: 'x' });
void [dropIn, response, orders.balancer.ready(), orders.close()];

const dispatcher = createDispatcher('http://orders.shop:8080', { resolver });
void dispatcher.request({ path: '/', method: 'GET' }).then(({ statusCode, body }) => [statusCode, body.json()]);
void dispatcher.balancer.snapshot().endpoints[0]?.inFlight;
// As in its own documentation.
export async function example(): Promise<void> {
  const example = createDispatcher('http://orders.shop:8080');
  const { body } = await example.request({ path: '/v1/orders/42', method: 'GET' });
  console.log(await body.json());
  await example.close();
}

// Null, as undefined, is no key.
createDispatcher('http://orders.shop:8080', { key: () => null, hedge: undefined, webSocket: undefined });

// @ts-expect-error: an option that does not exist
createDispatcher('http://orders.shop:8080', { resolvers: [] });
