export type { RedisClient, Replicas, ReplicasOptions } from './options.js';
export { createReplicas } from './replicas.js';
