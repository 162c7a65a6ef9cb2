import { roundRobin } from 'evenkeel';
import { createReplicas, type RedisClient, type Replicas, type ReplicasOptions } from 'evenkeel/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';

const options: ReplicasOptions = {
  role: 'replica',
  readCommands: ['JSON.GET'],
  clientOptions: { password: 'secret', tls: { ca: 'PEM' } },
  probeIntervalMs: 500,
  picker: roundRobin(),
};
const primary: Redis & RedisClient = new Redis({ lazyConnect: true });
const replicas: Replicas<Redis> = createReplicas(primary, 'redis-replicas.shop:6379', options);
// It is a client of ioredis, wherever one is asked for.
const redis: Redis = replicas.client;
const value: Promise<string | null> = redis.get('item:7');
redis
  .pipeline()
  .get('item:7')
  .exec((_, results) => void results?.length);
void [value, replicas.balancer.snapshot(), replicas.close(), replicas[Symbol.asyncDispose]];

// @ts-expect-error: a role that reads never have
createReplicas(primary, 'redis-replicas.shop:6379', { role: 'primary' });
// @ts-expect-error: an option that does not exist
createReplicas(primary, 'redis-replicas.shop:6379', { tarqet: 'redis.shop' });
// @ts-expect-error: not a client
createReplicas('redis://redis.shop', 'redis-replicas.shop:6379');

const client = createClient({ url: 'redis://redis.shop' });
const both = createReplicas(client, 'redis-replicas.shop:6379');
const same: typeof client = both.client;
const answer: Promise<string | null> = same.get('item:7');
void answer;
