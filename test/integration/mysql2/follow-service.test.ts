import { once } from 'node:events';
import { type FollowServiceOptions, followService, type ServiceFollower } from 'evenkeel/mysql2';
import { FakeResolver } from 'evenkeel/testing';
import mysql, { type PoolCluster, type PoolConnection, type PoolOptions, type RowDataPacket } from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { canRemove } from './support/peer.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const tls = createCertificate({ commonName: 'mysql', hosts: ['mysql-read.shop'], issuer: authority });

/** Which server answers. */
const WHO = 'SELECT @@server_id AS id';

function query(on: { query: PoolConnection['query'] }, sql: string): Promise<RowDataPacket[]> {
  return new Promise((resolve, reject) => {
    on.query<RowDataPacket[]>(sql, (error, rows) => (error ? reject(error) : resolve(rows)));
  });
}

async function who(cluster: PoolCluster): Promise<number> {
  const [row] = await query(cluster.of('*'), WHO);
  return row?.id as number;
}

function checkOut(cluster: PoolCluster, id: string): Promise<PoolConnection> {
  return new Promise((resolve, reject) => {
    cluster.getConnection(id, (error, connection) => (error ? reject(error) : resolve(connection)));
  });
}

it.skipIf(canRemove)(
  titleOf('followService says which mysql2 it needs', !canRemove, 'it needs a mysql2 before 3.12'),
  () => {
    const resolver = new FakeResolver();
    expect(() => followService(mysql.createPoolCluster(), { resolver, node: () => ({}) })).toThrow(
      /cluster must be a PoolCluster of mysql2 3\.12 or later/,
    );
  },
);

describe.skipIf(noMariadb || !canRemove)(
  titleOf(titled("followService with mysql2's own PoolCluster"), canRemove, 'it needs mysql2 3.12'),
  () => {
    let world: MariadbWorld;
    let resolver: FakeResolver;
    const opened: { follower: ServiceFollower; end: () => Promise<unknown> }[] = [];

    beforeAll(async () => {
      world = await startMariadbs(3, {
        tls,
        init: ['CREATE TABLE IF NOT EXISTS accounts (id INT PRIMARY KEY, balance INT)'],
      });
    });
    afterAll(async () => {
      await world?.close();
    });
    beforeEach(() => {
      resolver = new FakeResolver();
      resolver.update(...world.endpoints);
    });
    afterEach(async () => {
      for (const { follower, end } of opened.splice(0)) {
        await follower.close();
        await end();
      }
      await until('no server has a client left', async () => {
        const counts = await Promise.all(world.all.map((server) => server.connections()));
        return counts.every((count) => count === 0);
      });
    });

    /** The id of a server's node. */
    const idOf = (index: number): string => `127.0.0.1:${world.at(index).port}`;
    const createCluster = (): PoolCluster => mysql.createPoolCluster({ restoreNodeTimeout: 500 });
    const node = (): PoolOptions => ({ ...application, connectionLimit: 5 });
    const follow = (cluster: PoolCluster, options: Partial<FollowServiceOptions> = {}): ServiceFollower => {
      const follower = followService(cluster, { resolver, node, ...options });
      opened.push({ follower, end: () => new Promise((resolve) => cluster.end(resolve)) });
      return follower;
    };

    it('has a node for each endpoint once it is ready, and takes turns among them', async () => {
      const cluster = createCluster();
      const follower = follow(cluster);
      await follower.ready();
      expect([...follower.nodeIds].sort()).toEqual([idOf(0), idOf(1), idOf(2)].sort());
      const answers = new Map<number, number>();
      for (let count = 0; count < 30; count++) {
        const id = await who(cluster);
        answers.set(id, (answers.get(id) ?? 0) + 1);
      }
      expect([...answers].sort()).toEqual([
        [1, 10],
        [2, 10],
        [3, 10],
      ]);
    });

    it('adds endpoints that are ready, and no others', async () => {
      const [first, second, third] = world.all.map(({ endpoint }) => endpoint);
      if (first === undefined || second === undefined || third === undefined)
        throw new Error('three servers are needed');
      resolver.update(first, { ...second, conditions: { ready: false, serving: false } });
      const cluster = createCluster();
      const follower = follow(cluster, { id: ({ port }) => `replica-${port}` });
      await follower.ready();
      expect(follower.nodeIds).toEqual([`replica-${world.at(0).port}`]);
      resolver.update(first, second, third);
      await until('all three are in', () => follower.nodeIds.length === 3);
      expect((await query(cluster.of(`replica-${world.at(2).port}`), WHO))[0]).toEqual({ id: 3 });
    });

    it('works with mysql2/promise', async () => {
      const cluster = mysqlPromise.createPoolCluster({ restoreNodeTimeout: 500 });
      const follower = followService(cluster, { resolver, node });
      opened.push({ follower, end: () => cluster.end() });
      await follower.ready();
      const connection = await cluster.getConnection(idOf(2));
      resolver.update(...world.endpoints.slice(0, 2));
      await once(cluster, 'offline');
      expect((await connection.query(WHO))[0]).toEqual([{ id: 3 }]);
      connection.release();
      await until('the third is out', () => follower.nodeIds.length === 2);
      for (let count = 0; count < 10; count++) {
        const [[row]] = (await cluster.of('*').query(WHO)) as unknown as [RowDataPacket[]];
        expect(row?.id).toBeLessThan(3);
      }
    });

    it('sends and checks the name of the Service while it connects to the pods', async () => {
      const secured = (host: string) => (): PoolOptions => ({
        ...node(),
        host,
        ssl: { ca: authority.cert, verifyIdentity: true },
      });
      const cluster = createCluster();
      await follow(cluster, { node: secured('mysql-read.shop') }).ready();
      const [row] = await query(cluster.of('*'), "SHOW STATUS LIKE 'Ssl_cipher'");
      expect(row?.Value).not.toBe('');
      const wrong = follow(createCluster(), { node: secured('other.shop'), startTimeoutMs: 300 });
      await expect(wrong.ready()).rejects.toMatchObject({ code: 'EVENKEEL_NOT_READY' });
      await until('it is told', () => wrong.snapshot().endpoints[0]?.lastError !== undefined);
      expect(wrong.snapshot().endpoints[0]?.lastError).toContain('Hostname/IP does not match');
      expect(wrong.nodeIds).toEqual([]);
    });

    it('says which server refuses the password, and never prints the password', async () => {
      const events: unknown[] = [];
      const follower = follow(createCluster(), {
        node: () => ({ ...node(), password: 'not-the-secret' }),
        startTimeoutMs: 300,
        observer: { subchannelChanged: (event) => events.push(event, event.error?.message) },
      });
      const error = await follower.ready().catch((thrown: unknown) => thrown as Error);
      expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
      await until('it is told', () => follower.snapshot().endpoints[0]?.lastError !== undefined);
      const { lastError } = follower.snapshot().endpoints[0] ?? {};
      expect(lastError).toContain(`cannot log in to 127.0.0.1:${world.at(0).port}: Access denied for user 'shop'`);
      expect(events.length).toBeGreaterThan(0);
      expect(JSON.stringify([error, String(error), follower.snapshot(), events])).not.toContain('not-the-secret');
    });

    describe('when servers leave', () => {
      it('fails no query', async () => {
        const cluster = createCluster();
        const follower = follow(cluster, { drainTimeoutMs: 10_000 });
        await follower.ready();
        let isOver = false;
        const answers = new Map<number, number>();
        const worker = async (): Promise<void> => {
          while (!isOver) {
            const id = await who(cluster);
            answers.set(id, (answers.get(id) ?? 0) + 1);
          }
        };
        const workers = Promise.all(Array.from({ length: 20 }, worker));
        const answered = (id: number, more: number): Promise<void> => {
          const before = answers.get(id) ?? 0;
          return until(`server ${id} answers`, () => (answers.get(id) ?? 0) >= before + more, 20_000);
        };
        for (let round = 0; round < 3; round++) {
          resolver.update(...world.endpoints.slice(0, 2));
          await until('the third is out', () => follower.nodeIds.length === 2, 20_000);
          await answered(1, 100);
          resolver.update(...world.endpoints);
          await answered(3, 100);
        }
        isOver = true;
        await workers;
      });

      it('lets a transaction finish, and sends the server nothing new', async () => {
        const cluster = createCluster();
        const follower = follow(cluster);
        await follower.ready();
        const connection = await checkOut(cluster, idOf(2));
        await query(connection, 'BEGIN');
        await query(connection, 'INSERT INTO accounts VALUES (1, 100)');
        resolver.update(...world.endpoints.slice(0, 2));
        await once(cluster, 'offline');
        for (let count = 0; count < 20; count++) expect(await who(cluster)).toBeLessThan(3);
        await query(connection, 'UPDATE accounts SET balance = 50 WHERE id = 1');
        await query(connection, 'COMMIT');
        connection.release();
        expect(await world.at(2).sql('SELECT balance FROM shop.accounts')).toEqual([{ balance: 50 }]);
        await until('the third is out', () => follower.nodeIds.length === 2);
      });

      it('cuts connections that are not released in time, without an uncaught error', async () => {
        const cluster = createCluster();
        const follower = follow(cluster, { drainTimeoutMs: 200 });
        await follower.ready();
        const connection = await checkOut(cluster, idOf(2));
        const sleeping = query(connection, 'SELECT SLEEP(60)');
        resolver.update(...world.endpoints.slice(0, 2));
        await expect(sleeping).rejects.toMatchObject({ code: 'PROTOCOL_CONNECTION_LOST' });
        await until('the third is out', () => follower.nodeIds.length === 2);
        expect(await who(cluster)).toBeLessThan(3);
        // The server would find out only after its sleep.
        await world.at(2).sql(`KILL ${connection.threadId}`);
      });
    });

    it('refuses a cluster without restoreNodeTimeout', async () => {
      const follower = follow(mysql.createPoolCluster());
      await expect(follower.ready()).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
      expect(follower.nodeIds).toEqual([]);
    });

    describe('when both of two servers die and return', () => {
      afterEach(async () => {
        for (const server of world.all) if (!server.running) await server.start();
      });

      it('uses them again, where the cluster alone has lost them for good', async () => {
        resolver.update(...world.endpoints.slice(0, 2));
        const pool = { connectionLimit: 5, ...application };
        const alone = mysql.createPoolCluster();
        for (const { address, port } of world.endpoints.slice(0, 2)) {
          alone.add(`${address}:${port}`, { ...pool, host: address, port });
        }
        const followed = createCluster();
        const follower = follow(followed);
        await follower.ready();
        const both = [alone, followed];
        for (const cluster of both) expect([await who(cluster), await who(cluster)].sort()).toEqual([1, 2]);
        const dead = world.all.slice(0, 2);
        await Promise.all(dead.map((server) => server.kill()));
        // Queries go on as they do in a service nobody has stopped; after a few failures mysql2 has removed both nodes.
        for (const cluster of both) {
          await until('the cluster has given up', () =>
            who(cluster).then(
              () => false,
              (error) => /^POOL_/.test(error.code),
            ),
          );
        }
        await Promise.all(dead.map((server) => server.start()));
        const back = new Set<number>();
        await until('both answer again', async () => {
          await who(followed).then(
            (id) => back.add(id),
            () => {},
          );
          return back.size === 2;
        });
        await expect(who(alone)).rejects.toMatchObject({ code: 'POOL_NOEXIST' });
        await new Promise((resolve) => alone.end(resolve));
      });
    });

    it('when it is closed, leaves the cluster with its nodes and without listeners', async () => {
      const cluster = createCluster();
      const follower = follow(cluster);
      await follower.ready();
      expect(cluster.listenerCount('online')).toBe(1);
      await follower.close();
      expect(cluster.listenerCount('online')).toBe(0);
      expect(resolver.watchers).toBe(0);
      resolver.update(...world.endpoints.slice(0, 1));
      expect([await who(cluster), await who(cluster), await who(cluster)].sort()).toEqual([1, 2, 3]);
      await expect(follower.ready()).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    });
  },
);
