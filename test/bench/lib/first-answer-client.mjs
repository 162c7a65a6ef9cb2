/** One process that makes one request and says how long its answer took: see first-answer.bench.mjs. */
import { resolverFrom } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';

const { port, folder, apiPort, dns } = JSON.parse(process.argv[2] ?? '{}');
const started = performance.now();
const resolver = resolverFrom(`orders.shop:${port}`, {
  allowAddresses: ['loopback'],
  kubernetes: {
    inCluster: {
      path: folder,
      env: { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(apiPort) },
    },
  },
  dns: { servers: [dns], clusterDomain: 'cluster.local', namespace: 'web' },
});
const fetchOrders = createFetch(`http://orders.shop:${port}`, { resolver });
const response = await fetchOrders('/');
await response.text();
console.log(JSON.stringify({ firstMs: performance.now() - started }));
await fetchOrders.close();
