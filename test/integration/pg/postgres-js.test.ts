import { roundRobin } from 'evenkeel';
import { type Connector, createConnector } from 'evenkeel/tcp';
import { FakeResolver } from 'evenkeel/testing';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import { until } from '../../support/until.js';

/** The recipe of the guide: postgres.js gets its sockets from a connector. */
describe.skipIf(noPostgres)(titled('postgres.js on createConnector'), () => {
  let world: PostgresWorld;
  let replicas: Connector;
  let sql: postgres.Sql;
  beforeAll(async () => {
    world = await startPostgres(1);
    const resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    replicas = createConnector('postgres.shop:5432', { resolver, picker: roundRobin(), closeLeaving: true });
    const socket = (() => replicas.connect()) as never;
    sql = postgres({ host: 'postgres.shop', ...application, max: 4, socket, backoff: 0.05 } as never);
  });
  afterAll(async () => {
    await sql?.end({ timeout: 5 });
    await replicas?.close();
    await world?.close();
  });
  const ports = async (count: number): Promise<number[]> => {
    const answers = await Promise.all(
      Array.from({ length: count }, () => sql`SELECT inet_server_port() AS port, pg_sleep(0.02)`),
    );
    return answers.map(([row]) => row?.port);
  };

  it('spreads its connections over the servers, and opens new ones where one died', async () => {
    const seen = await ports(40);
    expect(new Set(seen).size).toBe(2);
    await world.at(1).kill();
    await until('the other one answers', async () => {
      const answers = await ports(8).catch(() => []);
      return answers.length === 8 && answers.every((port) => port === world.at(0).port);
    });
    expect(await sql.begin(async (transaction) => (await transaction`SELECT 1 AS one`)[0])).toEqual({ one: 1 });
  });
});
