import { staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster } from 'evenkeel/mysql2';
import { FakeClock } from 'evenkeel/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { application, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { until } from '../../support/until.js';
import { PROOF, report } from './support/traffic.js';

const full = { code: 1040, message: 'Too many connections' };

describe('a server at max_connections', () => {
  let server: ScriptedMysql;
  let clock: FakeClock;
  let cluster: PoolCluster;
  beforeEach(async () => {
    server = await ScriptedMysql.start();
    clock = new FakeClock();
    cluster = createPoolCluster({
      resolver: staticEndpoints([server.endpoint]),
      user: 'app',
      connectionLimit: 30,
      waitTimeoutMs: 600_000,
      clock,
    });
    await until('it is connected', () => cluster.balancer.snapshot().state === 'ready');
  });
  afterEach(async () => {
    for (const held of [...server.connections]) held.answer?.();
    server.reaction = () => 'id';
    await cluster.end();
    await server[Symbol.asyncDispose]();
  });
  const capacity = (): number | undefined => cluster.balancer.snapshot().endpoints[0]?.capacity;
  /** So many statements that the server holds back. */
  const ask = (count: number): Promise<unknown>[] => Array.from({ length: count }, () => cluster.query('SELECT id'));

  it('runs as many statements as it accepts connections, including those whose handshakes were under way when it refused one', async () => {
    server.reaction = () => 'hold';
    server.greeting = 'late';
    const asking = ask(4);
    await until('three are on their way', () => server.accepted === 4);
    server.greeting = full;
    asking.push(...ask(1));
    await until('one was refused', () => capacity() === 1);
    server.greet();
    await until('the others were given', () => capacity() === 4);
    await server.held(4);
    server.reaction = () => 'id';
    for (const held of [...server.connections]) held.answer?.();
    await Promise.all(asking);
    expect(server.accepted).toBe(5);
  });

  it('gets one more connection after a while, then twice as many, up to the configured number', async () => {
    server.reaction = () => 'hold';
    server.greeting = full;
    const asking = ask(30);
    await until('29 were refused', () => server.accepted === 30 && server.open === 1 && capacity() === 1);
    await until('they wait', () => cluster.balancer.snapshot().waiting === 29);
    clock.advance(4_999);
    expect(capacity()).toBe(1);
    clock.advance(1);
    // Its limit still stands: one of those who wait finds out.
    await until('one was tried', () => server.accepted === 31 && capacity() === 1);
    await until('it waits again', () => cluster.balancer.snapshot().waiting === 29);
    server.greeting = 'hello';
    clock.advance(5_000);
    await server.held(30);
    expect(capacity()).toBe(30);
    server.reaction = () => 'id';
    for (const held of [...server.connections]) held.answer?.();
    await Promise.all(asking);
    expect(server.accepted).toBe(60);
  });

  it('whose connections have all ended still gets calls while others are being opened', async () => {
    server.greeting = 'late';
    server.reaction = () => 'hold';
    const lost = cluster.query('SELECT id');
    const failing = expect(lost).rejects.toMatchObject({ code: 'PROTOCOL_CONNECTION_LOST' });
    const asking = ask(2);
    await until('two are on their way', () => server.accepted === 3);
    await server.held(1);
    server.connections.find(({ answer }) => answer !== undefined)?.socket.end();
    await failing;
    server.greeting = full;
    asking.push(...ask(1));
    await until('one was refused', () => server.accepted === 4 && capacity() === 1);
    server.reaction = () => 'id';
    server.greet();
    await Promise.all(asking);
    expect(server.accepted).toBe(4);
  });
});

describe.skipIf(noMariadb)(titled('a real server at max_connections'), () => {
  it('answers all that wait, over all the connections it accepts', async () => {
    const count = PROOF ? 4_000 : 400;
    await using world = await startMariadbs(1, { args: ['--max-connections=12'] });
    const cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints),
      connectionLimit: 30,
      waitTimeoutMs: 600_000,
      maxWaiting: count,
      ...application,
    });
    try {
      await cluster.ready();
      const beganMs = performance.now();
      const answers = await Promise.allSettled(Array.from({ length: count }, () => cluster.query('DO SLEEP(0.05)')));
      const ms = Math.round(performance.now() - beganMs);
      expect(answers.filter(({ status }) => status === 'rejected')).toEqual([]);
      // MariaDB keeps one beside the twelve for an administrator.
      const capacity = cluster.balancer.snapshot().endpoints[0]?.capacity as number;
      expect(capacity).toBe(await world.at(0).connections());
      expect(capacity).toBeGreaterThanOrEqual(10);
      report('max_connections', { statements: count, ms, connections: capacity });
    } finally {
      await cluster.end();
    }
  });
});
