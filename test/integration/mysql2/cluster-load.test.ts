import { roundRobin } from 'evenkeel';
import { createPoolCluster, type PoolCluster } from 'evenkeel/mysql2';
import { FakeResolver } from 'evenkeel/testing';
import type { PoolConnection } from 'mysql2/promise';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { until } from '../../support/until.js';
import { LEDGER_SUM, Ledger, ledgerTables } from './support/ledger.js';
import { maxOverMean, PROOF, readers, report } from './support/traffic.js';

const WORKERS = 30;
const QUERIES = PROOF ? 100_000 : 9_000;

describe.skipIf(noMariadb)(titled('createPoolCluster under load'), () => {
  let world: MariadbWorld;
  let resolver: FakeResolver;
  let cluster: PoolCluster;
  beforeEach(async () => {
    world = await startMariadbs(3, { init: ledgerTables });
    resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    // With room to choose: where every connection is in use, a statement goes to whichever server is done first.
    cluster = createPoolCluster({ resolver, picker: roundRobin(), connectionLimit: WORKERS, ...application });
    await allReady(3);
  });
  afterEach(async () => {
    await cluster?.end();
    await world?.close();
  });
  const allReady = (count: number): Promise<void> =>
    until(
      'all are connected',
      () => cluster.balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length === count,
    );

  it('spreads statements evenly', async () => {
    const reading = readers(cluster, WORKERS, QUERIES);
    await reading.finished();
    expect(reading.errors).toEqual([]);
    expect(reading.total).toBe(QUERIES);
    const spread = maxOverMean(reading.answers);
    report('even spread', { queries: QUERIES, servers: reading.answers.size, 'max/mean': spread.toFixed(4) });
    expect(reading.answers.size).toBe(3);
    expect(spread).toBeLessThanOrEqual(1.01);
    // As many connections as were needed at once, not more.
    for (const server of world.all) expect(await server.connections()).toBeLessThanOrEqual(WORKERS);
  });

  it('sends a new server its share, and lets one that leaves finish: no statement and no transaction fails', async () => {
    const reading = readers(cluster, WORKERS / 2);
    const ledger = new Ledger(cluster, WORKERS / 2);
    await until('traffic runs', () => reading.total > 300 && ledger.total > 100);

    const added = await world.add();
    resolver.update(...world.endpoints);
    const addedAtMs = performance.now();
    let before = new Map(reading.answers);
    await until('the new one has its share', () => {
      if (reading.total - [...before.values()].reduce((a, b) => a + b, 0) < 400) return false;
      const share = reading.share(added.id, before);
      before = new Map(reading.answers);
      return share > 0.22;
    });
    report('a server was added', { 'ms to its fair share': Math.round(performance.now() - addedAtMs) });

    const leaving = world.at(0);
    const held = await holdOn(cluster, leaving.id);
    // Its pod is terminating: it closes as soon as nobody needs it.
    const terminating = { ...leaving.endpoint, conditions: { ready: false, serving: true, terminating: true } };
    resolver.update(...world.endpoints.filter(({ port }) => port !== leaving.port), terminating);
    before = new Map(reading.answers);
    await until(
      'traffic goes on without it',
      () => reading.total > [...before.values()].reduce((a, b) => a + b, 0) + 500,
    );
    // A transaction it had is still good, and its connection is closed only after that.
    await held.query('UPDATE accounts SET balance = balance + 1 WHERE id = 2');
    await held.query('INSERT INTO transfers VALUES (0)');
    await held.commit();
    held.release();
    await until('nothing is left there', async () => (await leaving.connections()) === 0);

    await reading.stop();
    await ledger.stop();
    expect(reading.errors).toEqual([]);
    expect(ledger.errors).toEqual([]);
    expect(ledger.moved).toBe(0);
    const audits = await Promise.all(world.all.map((server) => ledger.audit(server)));
    for (const { sum, missing } of audits) expect({ sum, missing }).toEqual({ sum: LEDGER_SUM, missing: 0 });
    report('servers came and went', {
      reads: reading.total,
      transfers: ledger.total,
      failed: reading.errors.length + ledger.errors.length,
      'sums kept': audits.length,
    });
    expect(audits.reduce((sum, { noted }) => sum + noted, 0)).toBe(ledger.total + 1);
  });
});

/** A transaction begun on one server, half done. */
async function holdOn(cluster: PoolCluster, id: number): Promise<PoolConnection> {
  for (;;) {
    const connection = await cluster.getConnection();
    const [rows] = await connection.query<never[]>('SELECT @@server_id AS id');
    if ((rows[0] as unknown as { id: number }).id !== id) {
      connection.release();
      continue;
    }
    await connection.beginTransaction();
    await connection.query('UPDATE accounts SET balance = balance - 1 WHERE id = 1');
    return connection;
  }
}
