import { roundRobin } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeResolver } from 'evenkeel/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  application,
  type MariadbWorld,
  noMariadb,
  startMariadbs,
  titled,
} from '../../../support/databases/mariadb.js';
import { until } from '../../../support/until.js';

/** What the tests do with a query builder. */
export interface Orm {
  /** A query through the builder: the `@@server_id` of who answered. */
  server(): Promise<number>;
  /** Moves 10 from account 1 to account 2 in one transaction and says on which server; throws at its end with `fail`. */
  transfer(fail?: Error): Promise<number>;
  /** A transaction that stays open until `end`. `open`: it has begun. */
  hold(end: Promise<void>, open: () => void): Promise<void>;
  /** Ends what is the builder's own. */
  close(): Promise<void>;
}

/** How it is put on top of a cluster, and what it makes of errors. */
export interface OrmCase {
  readonly name: string;
  open(cluster: PoolCluster): Orm;
  /** Whether plain queries are the cluster's own statements, which it may send again, rather than checked-out connections. */
  readonly repeats: boolean;
}

const init = [
  'CREATE TABLE IF NOT EXISTS accounts (id INT PRIMARY KEY, balance INT NOT NULL)',
  'INSERT IGNORE INTO accounts VALUES (1, 1000), (2, 1000)',
];

/** Everything a query builder has to do on a cluster that follows a Service, with real servers. */
export function describeOrm({ name, open, repeats }: OrmCase): void {
  describe.skipIf(noMariadb)(titled(`${name} on createPoolCluster`), () => {
    let world: MariadbWorld;
    let resolver: FakeResolver;
    let cluster: PoolCluster;
    let orm: Orm;
    /** What a test that failed has left running. */
    let load: Load | undefined;

    beforeAll(async () => {
      world = await startMariadbs(3, { init });
    });
    afterAll(async () => {
      await world?.close();
    });
    beforeEach(() => {
      resolver = new FakeResolver();
      resolver.update(...world.endpoints);
    });
    afterEach(async () => {
      await load?.stop();
      load = undefined;
      await orm.close();
      await cluster.end();
      await until('no server has a client left', async () => {
        const counts = await Promise.all(world.all.map((server) => server.connections()));
        return counts.every((count) => count === 0);
      });
    });

    /** Opens the builder once `servers` of them can be used. */
    async function connect(options: Partial<PoolClusterOptions> = {}): Promise<void> {
      cluster = createPoolCluster({ resolver, picker: roundRobin(), ...application, ...options });
      orm = open(cluster);
      await allReady(world.all.length);
    }
    const allReady = (servers: number): Promise<void> =>
      until(`${servers} servers are ready`, () => {
        const { endpoints } = cluster.balancer.snapshot();
        return endpoints.filter(({ state }) => state === 'ready').length === servers;
      });

    async function counts(queries: number): Promise<Record<number, number>> {
      const found: Record<number, number> = {};
      for (let count = 0; count < queries; count++) {
        const id = await orm.server();
        found[id] = (found[id] ?? 0) + 1;
      }
      return found;
    }

    it('spreads its queries evenly', async () => {
      await connect();
      expect(await counts(90)).toEqual({ 1: 30, 2: 30, 3: 30 });
    });

    it('keeps a transaction on one server, commits it and rolls it back', async () => {
      await connect();
      const balances = (id: number) => world.at(id - 1).sql('SELECT balance FROM shop.accounts ORDER BY id');
      const before = await Promise.all([1, 2, 3].map(balances));
      const id = await orm.transfer();
      const [from, to] = before[id - 1] ?? [];
      expect(await balances(id)).toEqual([{ balance: from.balance - 10 }, { balance: to.balance + 10 }]);
      const afterOne = await Promise.all([1, 2, 3].map(balances));
      for (let count = 0; count < 3; count++) {
        await expect(orm.transfer(new Error('no, thanks'))).rejects.toThrow('no, thanks');
      }
      expect(await Promise.all([1, 2, 3].map(balances))).toEqual(afterOne);
    });

    it('waits a bounded time when every connection is in use, and works again afterwards', async () => {
      await connect({ connectionLimit: 1, waitTimeoutMs: 300 });
      let end = (): void => {};
      const released = new Promise<void>((resolve) => {
        end = resolve;
      });
      let opened = 0;
      const holding = Array.from({ length: 3 }, () => orm.hold(released, () => opened++));
      await until('all three connections are in use', () => opened === 3);
      const error = await orm.server().catch((thrown: unknown) => thrown as Error);
      expect(codeOf(error)).toBe('EVENKEEL_NOT_READY');
      end();
      await Promise.all(holding);
      expect(await counts(6)).toEqual({ 1: 2, 2: 2, 3: 2 });
    });

    it('loses nothing when servers come and go in order', async () => {
      await connect();
      load = new Load(() => orm.server());
      resolver.update(...world.endpoints.slice(0, 2));
      await load.settles({ 1: 100, 2: 100 });
      resolver.update(...world.endpoints);
      await load.settles({ 3: 100 });
      await load.stop();
      expect(load.errors).toEqual([]);
    });

    it('gets over the death of a server, and uses it again when it is back', async () => {
      await connect({ idempotent: true });
      load = new Load(() => orm.server());
      await load.settles({ 1: 20, 2: 20, 3: 20 });
      await world.at(2).kill();
      await load.settles({ 1: 200, 2: 200 });
      const errors = load.errors.length;
      // What ran on checked-out connections of the dead server fails, once; a connection is not a query one could repeat.
      expect(errors).toBeLessThanOrEqual(repeats ? 0 : Load.WORKERS);
      await load.settles({ 1: 200, 2: 200 });
      expect(load.errors.length).toBe(errors);
      await world.at(2).start();
      await load.settles({ 3: 100 });
      await load.stop();
      expect(load.errors.length).toBe(errors);
    });
  });
}

/** Workers that query without a pause. */
class Load {
  static readonly WORKERS = 12;
  readonly errors: unknown[] = [];
  readonly #answers: Record<number, number> = {};
  readonly #workers: Promise<unknown>;
  #isOver = false;

  constructor(query: () => Promise<number>) {
    const work = async (): Promise<void> => {
      while (!this.#isOver) {
        try {
          const id = await query();
          this.#answers[id] = (this.#answers[id] ?? 0) + 1;
        } catch (error) {
          this.errors.push(error);
          // Errors that come at once must not keep the event loop from everything else.
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    this.#workers = Promise.all(Array.from({ length: Load.WORKERS }, work));
  }

  /** Resolves when these servers have answered so many more. */
  async settles(more: Readonly<Record<number, number>>): Promise<void> {
    const goals = Object.entries(more).map(([id, count]) => [Number(id), (this.#answers[Number(id)] ?? 0) + count]);
    await until(
      `answers of ${Object.keys(more)}`,
      () => goals.every(([id, goal]) => (this.#answers[id as number] ?? 0) >= (goal as number)),
      20_000,
    );
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#workers;
  }
}

/** Some builders wrap what the driver throws. */
function codeOf(error: unknown): unknown {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } };
  return code ?? cause?.code;
}
