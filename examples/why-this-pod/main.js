// @ts-check
/**
 * Requests to three pods, of which one is slow, and a recording of where they went.
 *
 *   node examples/why-this-pod/main.js
 *   npx evenkeel explain recording.bin --call 300
 */

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { staticEndpoints } from 'evenkeel';
import { flightRecorder } from 'evenkeel/recorder';
import { createFetch } from 'evenkeel/undici';

/** @param {string} name @param {number} workMs */
async function startPod(name, workMs) {
  const server = createServer((_request, response) => {
    setTimeout(() => response.end(name), workMs);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { server, endpoint: { address: '127.0.0.1', port, name, zone: 'a' } };
}

const pods = [await startPod('orders-1', 5), await startPod('orders-2', 5), await startPod('orders-3', 60)];
const recorder = flightRecorder({ seconds: 60 });
const orders = createFetch('http://orders.shop:8080', {
  resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)),
  recorder,
});

for (let round = 0; round < 75; round++) {
  await Promise.all(Array.from({ length: 4 }, async () => (await orders('/orders/42')).text()));
}
writeFileSync('recording.bin', recorder.dump());
console.log('wrote recording.bin: 300 calls');

await orders.close();
for (const { server } of pods) server.close();
