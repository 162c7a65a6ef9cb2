import { roundRobin } from 'evenkeel';
import { createPool, type PgPool, type PgPoolOptions } from 'evenkeel/pg';
import { FakeResolver } from 'evenkeel/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  application,
  noPostgres,
  type PostgresWorld,
  startPostgres,
  titled,
} from '../../support/databases/postgres.js';
import type { Readers } from '../../support/readers.js';
import { until } from '../../support/until.js';
import { maxOverMean, PROOF, readers, report } from './support/traffic.js';

const WORKERS = 30;
const READS = PROOF ? 100_000 : 6_000;

describe.skipIf(noPostgres)(titled('reads over standbys'), () => {
  let world: PostgresWorld;
  let pool: PgPool;
  const open = async (options: PgPoolOptions = {}): Promise<void> => {
    const resolver = new FakeResolver();
    resolver.update(...world.endpoints);
    pool = createPool({ resolver, role: 'replica', max: WORKERS, ...application, ...options });
    await allReady();
  };
  const allReady = (): Promise<void> =>
    until(
      'all are connected',
      () => pool.balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length === 3,
    );

  beforeAll(async () => {
    world = await startPostgres(2);
  });
  afterAll(async () => {
    await world?.close();
  });
  afterEach(async () => {
    await pool?.end();
  });

  it('spreads statements evenly', async () => {
    await open({ picker: roundRobin() });
    const reading = readers(pool, WORKERS, READS);
    await reading.finished();
    expect(reading.errors.map(String)).toEqual([]);
    const spread = maxOverMean(reading.answers);
    report('even spread', { reads: reading.total, servers: reading.answers.size, 'max/mean': spread.toFixed(4) });
    expect(reading.total).toBe(READS);
    expect(reading.answers.size).toBe(2);
    expect(spread).toBeLessThanOrEqual(1.01);
  });

  it('a rolling restart of the standbys fails no read', async () => {
    await open({ idempotent: true });
    const reading = readers(pool, WORKERS);
    for (const standby of [world.at(1), world.at(2)]) {
      await more(reading, 500);
      await standby.stop();
      await more(reading, 500);
      await standby.start();
      await allReady();
    }
    await more(reading, 500);
    await reading.stop();
    report('rolling restart', { reads: reading.total, failed: reading.errors.length });
    expect(reading.errors.map(String)).toEqual([]);
  });

  it('a standby that is killed fails no read that may be repeated', async () => {
    await open({ idempotent: true });
    for (let round = 0; round < (PROOF ? 10 : 1); round++) {
      const standby = world.at(1 + (round % 2));
      const reading = readers(pool, WORKERS);
      await more(reading, 500);
      await standby.kill();
      await more(reading, 1_000);
      await reading.stop();
      report('kill', { reads: reading.total, failed: reading.errors.length });
      expect(reading.errors.map(String)).toEqual([]);
      await standby.start();
      await allReady();
    }
  });

  const more = async (reading: Readers, count: number): Promise<void> => {
    const goal = reading.total + count;
    await until('reads go on', () => reading.total >= goal || reading.errors.length > 0);
  };
});
