// @ts-check
/** The client: `stock` is Node's own fetch; the others are the fetch of one Service. */
import { readFileSync } from 'node:fs';

const AT_ONCE = 50;
const [how, servicePort, ports = '', requests] = process.argv.slice(2);

/** @type {(url: string) => Promise<Response>} */
let get = fetch;
if (how !== 'stock') {
  const { roundRobin, staticEndpoints } = await import('evenkeel');
  const { createFetch } = await import('evenkeel/undici');
  // In a cluster `createFetch('https://orders.shop')` is enough.
  get = createFetch('https://localhost', {
    resolver: staticEndpoints(ports.split(',').map((port) => ({ address: '127.0.0.1', port: Number(port) }))),
    tls: { ca: readFileSync(/** @type {string} */ (process.env.NODE_EXTRA_CA_CERTS)) },
    ...(how !== 'evenkeel' && { picker: roundRobin() }),
  });
}
const url = how === 'stock' ? `https://localhost:${servicePort}/` : 'https://localhost/';

/** @type {Record<string, number>} */
const counts = {};
let begun = 0;
async function worker() {
  while (begun++ < Number(requests)) {
    const pod = await (await get(url)).text();
    counts[pod] = (counts[pod] ?? 0) + 1;
  }
}
await Promise.all(Array.from({ length: AT_ONCE }, worker));
process.send?.({ version: process.versions.node, counts }, () => process.exit());
