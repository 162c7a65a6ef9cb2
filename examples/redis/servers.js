// @ts-check
/** Redis servers on this machine, and an API server for tests in place of Kubernetes. */
import { createApiServer } from '../../test/servers/index.js';
import { RedisServers, redisHint, redisPath } from '../../test/support/databases/redis/servers.mjs';

/** What is missing, and the command that installs it; undefined if nothing is. */
export const missing =
  redisPath === undefined ? `This needs Redis, which is not here.\nTo install it: ${redisHint}` : undefined;

/** Starts a primary and two replicas, and a Service with the replicas as its pods. */
export async function startServers() {
  const servers = await RedisServers.start(2);
  const api = await createApiServer();
  const service = api.service('shop', 'redis-replicas', {
    ports: [{ name: 'redis', port: 6379, targetPort: 'redis' }],
  });
  for (const { name, address, port } of servers.all.slice(1)) {
    service.putPod({ name, address, ports: { redis: port } });
  }
  return {
    apiUrl: api.url,
    primary: servers.at(0),
    replicas: servers.all.slice(1),
    async close() {
      await servers.close();
      await api.close();
    },
  };
}
