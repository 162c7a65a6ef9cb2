// @ts-check
/** What an application writes: its own client of the primary, and a view of it whose reads go to replicas. `node examples/redis/demo.js` runs it. */
import { createReplicas } from 'evenkeel/redis';
import { Redis } from 'ioredis';

/** @param {import('ioredis').RedisOptions} primary @param {import('evenkeel/redis').ReplicasOptions} [options] none in a pod */
export function openRedis(primary, options) {
  const client = new Redis(primary);
  client.on('error', console.error);
  // `replicas.client` has the commands of the client: what only reads goes to a replica.
  return createReplicas(client, 'redis-replicas.shop:6379', options);
}
