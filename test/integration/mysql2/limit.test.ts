import { fixed, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster } from 'evenkeel/mysql2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { until } from '../../support/until.js';

let server: ScriptedMysql;
let cluster: PoolCluster;

/** How long statements may wait, in ms. */
const open = async (shedAfterMs: number): Promise<void> => {
  cluster = createPoolCluster({
    resolver: staticEndpoints([server.endpoint]),
    user: 'app',
    connectionLimit: 5,
    limit: fixed(1, { shedAfterMs }),
  });
  (await cluster.getConnection()).release();
};
beforeEach(async () => {
  server = await ScriptedMysql.start();
});
afterEach(async () => {
  server.end('badly');
  await cluster.end();
  await server[Symbol.asyncDispose]();
});
const codeOf = (failing: Promise<unknown>): Promise<unknown> =>
  failing.then(
    () => 'it did not fail',
    ({ code }: { code: unknown }) => code,
  );
/** Statements come, until two have waited for so long that they are shed. */
const shedTwo = async (): Promise<Promise<unknown>[]> => {
  const before = cluster.balancer.snapshot().counts.shed;
  const late: Promise<unknown>[] = [];
  await until('two are shed', () => {
    late.push(codeOf(cluster.query('SELECT id')));
    return cluster.balancer.snapshot().counts.shed >= before + 2;
  });
  return late;
};
const waiting = (): number => cluster.balancer.snapshot().waiting;

describe('limit', () => {
  it('bounds the running statements; important ones go first', async () => {
    await open(Number.POSITIVE_INFINITY);
    server.reaction = () => 'hold';
    const running = cluster.query('SELECT id');
    const held = await server.held(1);
    expect(cluster.balancer.snapshot().limit).toEqual({ max: 1, running: 1 });
    const plain = codeOf(cluster.query('SELECT id'));
    const critical = codeOf(cluster.query({ sql: 'SELECT id', priority: 'critical' }));
    expect(waiting()).toBe(2);
    server.reaction = () => 'id';
    held.answer?.();
    await running;
    expect(await critical).toBe('it did not fail');
    expect(await plain).toBe('it did not fail');
  });

  it('sheds statements that wait too long', async () => {
    await open(60);
    server.reaction = () => 'hold';
    const last = cluster.query('SELECT id');
    const holding = await server.held(1);
    // Until some have waited for long, nobody is shed.
    const shed = [codeOf(cluster.query('SELECT id')), codeOf(cluster.execute('SELECT id'))];
    void (await shedTwo());
    expect(await Promise.all(shed)).toEqual(['EVENKEEL_OVERLOAD', 'EVENKEEL_OVERLOAD']);
    server.reaction = () => 'id';
    holding.answer?.();
    await last;
  });

  it('does not count checked-out connections', async () => {
    await open(60);
    server.reaction = () => 'hold';
    const running = cluster.query('SELECT id');
    const held = await server.held(1);
    const first = await cluster.getConnection();
    const second = await cluster.getConnection();
    expect(cluster.balancer.snapshot().limit).toEqual({ max: 1, running: 1 });
    server.reaction = () => 'id';
    await first.query('SELECT id');
    held.answer?.();
    await running;
    // Those that are kept do not count.
    await cluster.query('SELECT id');
    first.release();
    second.release();
    await until('nothing runs', () => cluster.balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
    expect(cluster.balancer.snapshot().limit).toEqual({ max: 1, running: 0 });
  });

  it('does not shed a checkout that waits for a connection, whatever waits for the limit', async () => {
    await open(60);
    server.reaction = () => 'hold';
    const running = cluster.query('SELECT id');
    const held = await server.held(1);
    const all = await Promise.all(Array.from({ length: 4 }, () => cluster.getConnection()));
    let isServed = false;
    const more = cluster.getConnection().then((connection) => {
      isServed = true;
      connection.release();
    });
    const late = await shedTwo();
    expect(isServed).toBe(false);
    for (const connection of all) connection.release();
    await more;
    server.reaction = () => 'id';
    held.answer?.();
    await running;
    await Promise.all(late);
  });

  it('refuses an unknown priority', async () => {
    await open(60);
    expect(await codeOf(cluster.query({ sql: 'SELECT id', priority: 'high' as never }))).toBe('EVENKEEL_OPTION');
  });
});
