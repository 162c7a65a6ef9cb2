import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noRedis, type RedisWorld, startRedis, titled } from '../../support/databases/redis.js';
import { buildPackage, guidePrograms, outputOfProgram } from '../../support/programs/programs.js';
import { until } from '../../support/until.js';

const programs = guidePrograms('redis');
const expected: Readonly<Record<string, RegExp>> = {
  '# Redis: reads from replicas': /^seven\n$/,
  '# Redis: reads from replicas, with require': /^seven\n$/,
  'node-redis': /^seven\n$/,
  'Which replicas': /^seven\n$/,
  'When a replica fails': /state: '\w+'/,
};

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

describe.skipIf(noRedis)(titled('the guide to Redis'), () => {
  let world: RedisWorld;
  beforeAll(async () => {
    await buildPackage();
    world = await startRedis(2);
    await world.at(0).command('SET', 'item:7', 'seven');
    await Promise.all(
      world.all.map((server) => server.command('ACL', 'SETUSER', 'reader', 'on', 'nopass', '~*', '&*', '+@all')),
    );
    // A replica that has just connected gets nothing for up to a second.
    for (const server of world.all) {
      await until('it has the key', async () => (await server.command('GET', 'item:7')) === 'seven');
    }
  });
  afterAll(() => world?.close());

  it.each(programs)('$heading: the program runs and ends', async ({ heading, source, format }) => {
    const { address, port } = world.at(0);
    const replicas = world.endpoints.slice(1).map((endpoint) => `${endpoint.address}:${endpoint.port}`);
    const program = source
      .replaceAll("'redis-replicas.shop:6379'", `'static:${replicas.join(',')}'`)
      .replaceAll("host: 'redis.shop'", `host: '${address}', port: ${port}`)
      .replaceAll('redis://redis.shop', `redis://${address}:${port}`)
      .replace(', tls: {}', '');
    expect(await outputOfProgram({ source: program, format })).toMatch(expected[heading] as RegExp);
  });
});
