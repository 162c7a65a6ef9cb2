import { inspect } from 'node:util';
import { staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeClock } from 'evenkeel/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { until } from '../../support/until.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const tls = createCertificate({ commonName: 'mysql', hosts: ['mysql.shop'], issuer: authority });

describe.skipIf(noMariadb)(titled('a user, a password and TLS settings that change while the process lives'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster | undefined;
  beforeAll(async () => {
    world = await startMariadbs(2, { tls });
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    await cluster?.end();
    cluster = undefined;
  });
  const create = (options: Partial<PoolClusterOptions> = {}): PoolCluster => {
    cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints.slice(0, 1)),
      ...application,
      waitTimeoutMs: 60_000,
      ...options,
    });
    return cluster;
  };
  const { user, password } = application;
  const server = () => (cluster as PoolCluster).balancer.snapshot().endpoints[0];
  /** So many statements at once. */
  const atOnce = (count: number): Promise<unknown> =>
    Promise.all(Array.from({ length: count }, () => (cluster as PoolCluster).query('DO SLEEP(0.05)')));

  it('are read for each new connection, with the server it goes to', async () => {
    const asked: string[] = [];
    create({
      user: () => user,
      password: async ({ address, port }) => {
        asked.push(`${address}:${port}`);
        await new Promise(setImmediate);
        return password;
      },
    });
    await atOnce(4);
    const open = await world.at(0).connections();
    expect(open).toBeGreaterThan(1);
    expect(asked).toEqual(Array(open).fill(`127.0.0.1:${world.at(0).port}`));
    // None for what goes by a connection that is there.
    await atOnce(1);
    expect(asked).toHaveLength(open);
  });

  it('a password that was changed on the server is used for the next connection', async () => {
    let current = 'first';
    await world.at(0).sql("CREATE OR REPLACE USER rotating@'%' IDENTIFIED BY 'first'");
    cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints.slice(0, 1)),
      user: 'rotating',
      password: () => current,
    });
    await atOnce(2);
    await world.at(0).sql("ALTER USER rotating@'%' IDENTIFIED BY 'second'");
    current = 'second';
    await atOnce(6);
    expect(server()).toMatchObject({ state: 'ready', failed: 0 });
    expect(inspect(cluster, { depth: 12 })).not.toContain('second');
  });

  describe('with credentialsRefreshMs', () => {
    let clock: FakeClock;
    let current: string;
    let asked = 0;
    const rotate = async (): Promise<void> => {
      current = 'first';
      await world.at(0).sql("CREATE OR REPLACE USER rotating@'%' IDENTIFIED BY 'first'");
      clock = new FakeClock();
      cluster = createPoolCluster({
        resolver: staticEndpoints(world.endpoints.slice(0, 1)),
        user: 'rotating',
        password: () => {
          asked++;
          return current;
        },
        credentialsRefreshMs: 60_000,
        idleTimeout: 86_400_000,
        clock,
      });
      await until('it is connected', () => (cluster as PoolCluster).balancer.snapshot().state === 'ready');
    };
    const id = async (connection: { query(sql: string): Promise<unknown> }): Promise<number> => {
      const [[row]] = (await connection.query('SELECT CONNECTION_ID() AS id')) as [[{ id: number }]];
      return Number(row.id);
    };
    /** So many connections at once, given back but for the first. */
    const open = async (count: number) => {
      const all = await Promise.all(Array.from({ length: count }, () => (cluster as PoolCluster).getConnection()));
      const ids = await Promise.all(all.map((connection) => id(connection)));
      for (const connection of all.slice(1)) connection.release();
      return { held: all[0] as (typeof all)[number], ids };
    };

    it('connections that logged in with other values are replaced once they are idle', async () => {
      await rotate();
      const { held, ids } = await open(3);
      await world.at(0).sql("ALTER USER rotating@'%' IDENTIFIED BY 'second'");
      current = 'second';
      clock.advance(72_000);
      await until('those that are idle are closed', async () => {
        clock.advance(100);
        return (await world.at(0).connections()) === 1;
      });
      // A transaction, say.
      expect(await id(held)).toBe(ids[0]);
      const other = await id(cluster as PoolCluster);
      expect(ids).not.toContain(other);
      held.release();
      await until('the last is closed', async () => {
        clock.advance(100);
        return (await world.at(0).connections()) === 1;
      });
      expect(await id(cluster as PoolCluster)).toBe(other);
      clock.advance(720_000);
      expect(await id(cluster as PoolCluster)).toBe(other);
    });

    it('the only connection is replaced by another that is opened first', async () => {
      await rotate();
      const before = await id(cluster as PoolCluster);
      await world.at(0).sql("ALTER USER rotating@'%' IDENTIFIED BY 'second'");
      current = 'second';
      clock.advance(72_000);
      await until('there is another', async () => {
        clock.advance(100);
        return (await id(cluster as PoolCluster)) !== before;
      });
      expect(server()).toMatchObject({ state: 'ready', failed: 0 });
    });

    it('values that the server refuses change nothing', async () => {
      await rotate();
      const { held, ids } = await open(3);
      held.release();
      current = 'not yet known there';
      for (let round = 0; round < 5; round++) {
        const before = asked;
        clock.advance(72_000);
        await until('it is asked for', () => asked > before);
        clock.advance(1_000);
        expect(ids).toContain(await id(cluster as PoolCluster));
      }
      await until('the log-in it refused is over', async () => (await world.at(0).connections()) === 3);
      expect(server()).toMatchObject({ state: 'ready', failed: 0, capacity: 10 });
    });
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no token');
      },
      'the function given as "password" failed: no token',
    ],
    ['rejects', () => Promise.reject(new Error('no token')), 'the function given as "password" failed: no token'],
    [
      'returns no string',
      () => 7 as never,
      'the function given as "password" failed: it must return a string, got number',
    ],
  ])('a function that %s fails callers at once, like an invalid option', async (_what, ask, message) => {
    create({ password: ask, waitTimeoutMs: 600_000, resolver: staticEndpoints(world.endpoints) });
    await expect((cluster as PoolCluster).query('SELECT 1')).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
      message,
    });
    await expect((cluster as PoolCluster).getConnection()).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    expect(
      (cluster as PoolCluster).balancer.snapshot().endpoints.map(({ failed, suspect }) => [failed, suspect]),
    ).toEqual([
      [0, false],
      [0, false],
    ]);
  });

  it('a function that fails for a while: open connections do the work, and no server is blamed', async () => {
    let failing = false;
    create({
      password: () => {
        if (failing) throw new Error('no token');
        return password;
      },
    });
    await atOnce(1);
    failing = true;
    await atOnce(5);
    expect(server()).toMatchObject({ state: 'ready', failed: 0, suspect: false, capacity: 1 });
    await until('there is one', async () => (await world.at(0).connections()) === 1);
  });

  it('a function that works again is used again', async () => {
    let count = 0;
    create({
      password: () => {
        if (++count === 1) throw new Error('no token yet');
        return password;
      },
    });
    await expect((cluster as PoolCluster).query('SELECT 1')).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    await until('it is connected', () => (cluster as PoolCluster).balancer.snapshot().state === 'ready');
    await atOnce(1);
  });

  it('a function that does not answer may take as long as a connection may', async () => {
    const clock = new FakeClock();
    let isHanging = false;
    create({ clock, password: () => (isHanging ? new Promise<never>(() => {}) : password) });
    await atOnce(1);
    isHanging = true;
    const held = await (cluster as PoolCluster).getConnection();
    const waiting = (cluster as PoolCluster).query('SELECT 1');
    await new Promise(setImmediate);
    clock.advance(2_000);
    await until('it waits for the one there is', () => (cluster as PoolCluster).balancer.snapshot().waiting === 1);
    held.release();
    await waiting;
    expect(server()).toMatchObject({ state: 'ready', failed: 0 });
  });

  it('nothing is left of a cluster that ends while a function is running', async () => {
    let answer = (_password: string): void => {};
    const asked = new Promise<void>((resolve) => {
      create({
        password: () => {
          resolve();
          return new Promise<string>((settle) => {
            answer = settle;
          });
        },
      });
    });
    const waiting = expect((cluster as PoolCluster).query('SELECT 1')).rejects.toMatchObject({
      code: 'EVENKEEL_CLOSED',
    });
    await asked;
    await (cluster as PoolCluster).end();
    answer(password);
    await waiting;
    await until('there is none', async () => (await world.at(0).connections()) === 0);
  });

  it('TLS settings come from a function, too, and are checked like options', async () => {
    let ca = authority.cert;
    let asked = 0;
    create({
      host: 'mysql.shop',
      ssl: async () => {
        asked++;
        return { ca };
      },
    });
    const [[row]] = await (cluster as PoolCluster).query<never[]>("SHOW STATUS LIKE 'Ssl_version'");
    expect((row as unknown as { Value: string }).Value).toMatch(/^TLSv1/);
    expect(asked).toBe(1);
    ca = createCertificate({ commonName: 'another authority', hosts: [] }).cert;
    // What it says now holds for further connections only.
    const answers = await Promise.allSettled(
      Array.from({ length: 3 }, () => (cluster as PoolCluster).query('SELECT 1')),
    );
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    // The server may still count one that was turned away.
    await until('only the first is left', async () => (await world.at(0).connections()) === 1);
    expect(asked).toBeGreaterThan(1);
    await (cluster as PoolCluster).end();
    create({ host: 'mysql.shop', ssl: () => 7 as never });
    await expect((cluster as PoolCluster).query('SELECT 1')).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
  });
});
