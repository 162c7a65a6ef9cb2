// @ts-check
/**
 * Everything on one machine: a Redis primary and two replicas, an API server for tests in place of Kubernetes, and an application that
 * reads while one replica is killed and the other loses its primary.
 *
 *   node examples/redis/demo.js
 */
import { roundRobin } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { openRedis } from './main.js';
import { missing, startServers } from './servers.js';

if (missing !== undefined) {
  console.log(missing);
  process.exit(0);
}
const servers = await startServers();

const { address, port } = servers.primary;
const replicas = openRedis(
  { host: address, port },
  {
    picker: roundRobin(),
    // More often than you would want outside an example.
    probeIntervalMs: 100,
    // Leave this line out in a pod: evenkeel finds the API server by itself.
    resolver: endpointSlices({
      apiServer: servers.apiUrl,
      namespace: 'shop',
      service: 'redis-replicas',
      port: 'redis',
      allowAddresses: ['loopback'],
    }),
  },
);
const redis = replicas.client;

const usable = () =>
  replicas.balancer.snapshot().endpoints.filter(({ state, weight }) => state === 'ready' && weight > 0);
/** @param {number} count */
async function untilUsable(count) {
  while (usable().length !== count) await new Promise((resolve) => setTimeout(resolve, 10));
}

let failed = 0;
/** Which server ran how many GETs of 1,000. @param {string} what */
async function read(what) {
  const all = [servers.primary, ...servers.replicas];
  const count = () =>
    Promise.all(all.map(async (one) => (one.running ? ((await one.commandCounts()).get('get') ?? 0) : 0)));
  const before = await count();
  await Promise.all(
    Array.from({ length: 1_000 }, async () => {
      const value = await redis.get('item:7').catch(() => undefined);
      if (value !== 'seven') failed++;
    }),
  );
  const after = await count();
  const shares = all.map(({ name, running }, index) => [
    name,
    running ? (after[index] ?? 0) - (before[index] ?? 0) : '-',
  ]);
  console.log(what.padEnd(24), Object.fromEntries(shares));
}

await redis.set('item:7', 'seven');
await redis.wait(2, 0);
await untilUsable(2);
await read('two replicas:');

const [first, second] = servers.replicas;
await first?.kill();
await untilUsable(1);
await read('redis-1 is killed:');

await second?.command('REPLICAOF', 'NO', 'ONE');
await untilUsable(0);
await read('redis-2 is promoted:');

await first?.start();
await second?.follow(servers.primary);
await untilUsable(2);
await read('both are back:');
console.log('reads that failed:'.padEnd(24), failed);

await redis.quit();
await servers.close();
