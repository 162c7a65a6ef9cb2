// Run with other-platform.cjs and `register` loaded first: a server that reports its load and shuts down, and a client that balances over it.
import { once } from 'node:events';
import { createServer, get } from 'node:http';
import { staticEndpoints } from 'evenkeel';
import { inClusterAvailable } from 'evenkeel/kubernetes';
import { createAgent } from 'evenkeel/node-http';
import { createBackend, gracefulShutdown } from 'evenkeel/server';
import { createFetch } from 'evenkeel/undici';

const backend = createBackend();
const server = createServer(backend.http((_request, response) => response.end('here')));
const shutdown = gracefulShutdown({ http: server, exit: false, delayMs: 0, idleMs: 0 });
server.listen(0, '127.0.0.1');
await once(server, 'listening');
shutdown.ready();

const resolver = staticEndpoints([{ address: '127.0.0.1', port: server.address().port }]);
const fetchOrders = createFetch('http://orders.shop:8080', { resolver });
const agent = createAgent('http://orders.shop:8080', { resolver });
const report = await fetchOrders('/', { headers: { 'endpoint-load-metrics-format': 'TEXT' } });
const answer = await new Promise((resolve, reject) => {
  get('http://orders.shop:8080/', { agent }, (response) => resolve(response.resume().statusCode)).on('error', reject);
});
const result = {
  platform: process.platform,
  inCluster: await inClusterAvailable(),
  body: await report.text(),
  reports: report.headers.has('endpoint-load-metrics'),
  answer,
};
await fetchOrders.close();
await agent.close();
await shutdown.begin();
await backend.close?.();
console.log(JSON.stringify(result));
