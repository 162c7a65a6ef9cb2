// @ts-check
/**
 * The client. `stock` is Node's own fetch; the others are the fetch of one Service, over HTTP/1.1 or over HTTP/2, with TLS or in the
 * clear.
 * HTTP/2 needs undici 8.10, which this repository has under the name undici8.
 */
import { readFileSync } from 'node:fs';
import * as nodeModule from 'node:module';

const AT_ONCE = 50;
const [how = '', servicePort, ports = '', requests] = process.argv.slice(2);
const isStock = how.startsWith('stock');
const isHttp2 = how.includes('HTTP/2');
const isClear = how.includes('in the clear');

/** @type {(url: string) => Promise<Response>} */
let get = fetch;
if (!isStock) {
  if (isHttp2) {
    // Node has it from 22.15 on; the types of an older one do not.
    /** @type {any} */ (nodeModule).registerHooks({
      resolve: (name, context, next) => next(name === 'undici' ? 'undici8' : name, context),
    });
  }
  const { roundRobin, staticEndpoints } = await import('evenkeel');
  const { createFetch } = await import('evenkeel/undici');
  // In a cluster `createFetch('https://orders.shop', { allowH2: true })` is enough, and in the clear `createFetch('http://orders.shop')`
  // if the Service's port says `appProtocol: kubernetes.io/h2c`.
  get = createFetch(isClear ? 'http://localhost' : 'https://localhost', {
    resolver: staticEndpoints(ports.split(',').map((port) => ({ address: '127.0.0.1', port: Number(port) }))),
    ...(isClear
      ? { useH2c: true }
      : { allowH2: isHttp2, tls: { ca: readFileSync(/** @type {string} */ (process.env.NODE_EXTRA_CA_CERTS)) } }),
    ...(how.includes('roundRobin()') && { picker: roundRobin() }),
  });
}
const url = isStock ? `https://localhost:${servicePort}/` : isClear ? 'http://localhost/' : 'https://localhost/';

/** @type {Record<string, number>} */
const counts = {};
/** @type {Set<string>} */
const versions = new Set();
let begun = 0;
async function worker() {
  while (begun++ < Number(requests)) {
    const [pod = '', version = ''] = (await (await get(url)).text()).split(' ');
    counts[pod] = (counts[pod] ?? 0) + 1;
    versions.add(version);
  }
}
if (!isStock) {
  // A pod whose connection has just opened may get its first call a tenth of a second later.
  const seen = new Set();
  const ask = async () => seen.add((await (await get(url)).text()).split(' ')[0]);
  for (let round = 0; round < 20 && seen.size < ports.split(',').length; round++)
    await Promise.all(Array.from({ length: AT_ONCE }, ask));
}
const started = performance.now();
await Promise.all(Array.from({ length: AT_ONCE }, worker));
const perSecond = Number(requests) / ((performance.now() - started) / 1000);
process.send?.({ node: process.versions.node, versions: [...versions], counts, perSecond }, () => process.exit());
