import { expect, it } from 'vitest';
import { noRedis, titled } from '../../support/databases/redis.js';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it.skipIf(noRedis)(
  titled('examples/redis: reads go on while a replica is killed and the other is promoted'),
  async () => {
    await buildPackage();
    const stdout = await outputOf(['examples/redis/demo.js']);
    expect(stdout).toMatch(/two replicas: +\{ 'redis-0': 0, 'redis-1': 500, 'redis-2': 500 \}/);
    expect(stdout).toMatch(/redis-1 is killed: +\{ 'redis-0': 0, 'redis-1': '-', 'redis-2': 1000 \}/);
    expect(stdout).toMatch(/redis-2 is promoted: +\{ 'redis-0': 1000, 'redis-1': '-', 'redis-2': 0 \}/);
    expect(stdout).toMatch(/reads that failed: +0/);
  },
  120_000,
);
