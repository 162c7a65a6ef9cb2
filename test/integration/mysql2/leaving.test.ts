import type { ObserverEvents } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { connected } from '../../support/fixtures/connected.js';
import { until } from '../../support/until.js';

/** The clock only moves where a test moves it: anything that waited for a time limit would wait for ever. */
describe('a server that leaves while calls wait for it', () => {
  let leaving: ScriptedMysql;
  let staying: ScriptedMysql;
  let resolver: FakeResolver;
  let clock: FakeClock;
  let cluster: PoolCluster;
  let attempts: ObserverEvents['attemptEnded'][];

  beforeEach(async () => {
    leaving = await ScriptedMysql.start();
    staying = await ScriptedMysql.start();
    resolver = new FakeResolver();
    clock = new FakeClock();
    attempts = [];
  });
  afterEach(async () => {
    for (const held of [...leaving.connections]) held.answer?.();
    await cluster.end();
    await leaving[Symbol.asyncDispose]();
    await staying[Symbol.asyncDispose]();
  });

  const create = async (options: Partial<PoolClusterOptions> = {}): Promise<void> => {
    cluster = createPoolCluster({
      resolver,
      user: 'app',
      clock,
      // Nothing of it was sent: that is no retry.
      retry: { maxAttempts: 1 },
      observer: { attemptEnded: (event) => attempts.push(event) },
      ...options,
    });
    resolver.update(leaving.endpoint);
    await connected(cluster.balancer, 1);
  };
  const inFlight = (): number => cluster.balancer.snapshot().endpoints[0]?.inFlight ?? 0;
  const picked = (count: number): Promise<void> => until(`${count} were picked for`, () => inFlight() === count);
  const leave = async (gone: boolean): Promise<void> => {
    const left = { ...leaving.endpoint, conditions: { ready: false, serving: true, terminating: true } };
    resolver.update(...(gone ? [left] : []), staying.endpoint);
    await until('the other is connected', () =>
      cluster.balancer
        .snapshot()
        .endpoints.some(({ key, state }) => key.includes(`:${staying.endpoint.port}`) && state === 'ready'),
    );
    // Callers of a start wait for a moment.
    clock.advance(20);
  };
  const servedBy = async (connection: Promise<{ endpoint?: { port: number }; release(): void }>): Promise<unknown> => {
    const got = await connection;
    got.release();
    return got.endpoint?.port;
  };

  for (const gone of [true, false]) {
    const how = gone ? 'its pod is terminating' : 'it is no longer listed';
    it(`statements and checkouts in the middle of a handshake go to another server at once (${how})`, async () => {
      await create();
      leaving.reaction = () => 'hold';
      const running = cluster.query('SELECT id');
      await leaving.held();
      leaving.greeting = 'silent';
      const moved = [
        cluster.query('SELECT id'),
        cluster.query('INSERT INTO t VALUES (1)'),
        servedBy(cluster.getConnection() as never),
      ];
      await picked(4);
      await leave(gone);
      expect((await Promise.all(moved)).at(-1)).toBe(staying.endpoint.port);
      const sent = staying.connections.flatMap(({ statements }) => statements);
      expect(sent.toSorted()).toEqual(['INSERT INTO t VALUES (1)', 'SELECT id']);
      expect(attempts.slice(0, 3).map(({ outcome, retrying }) => `${outcome.kind} ${retrying}`)).toEqual(
        Array(3).fill('not-started true'),
      );
      // What runs there finishes there.
      leaving.connections[0]?.answer?.();
      await running;
      expect(cluster.balancer.snapshot().counts).toMatchObject({ retries: { 'not-started': 3 }, overBudget: 0 });
    });
  }

  it('a statement that waits for the answer to a ping goes to another server at once', async () => {
    await create({ validateAfterMs: 1_000, validateTimeoutMs: 60_000 });
    leaving.answersPings = false;
    clock.advance(1_000);
    const moved = cluster.query('SELECT id');
    await until('it is asked', () => leaving.connections[0]?.pings === 1);
    await leave(true);
    await moved;
    expect(staying.connections[0]?.statements).toEqual(['SELECT id']);
    expect(leaving.connections.flatMap(({ statements }) => statements)).toEqual([]);
    // It never answers.
    clock.advance(60_000);
  });

  it('a statement that waits for a password goes to another server at once', async () => {
    let held: ((password: string) => void) | undefined;
    let asked = 0;
    await create({
      password: ({ port }) => {
        asked++;
        if (port === staying.endpoint.port || asked === 1) return '';
        return new Promise((resolve) => {
          held = resolve;
        });
      },
    });
    leaving.reaction = () => 'hold';
    const running = cluster.query('SELECT id');
    await leaving.held();
    const moved = cluster.query('SELECT id');
    await until('it is asked for', () => held !== undefined);
    await leave(true);
    await moved;
    held?.('');
    leaving.connections[0]?.answer?.();
    await running;
  });

  it('without another server the caller gets the error, and the server is used again when it is back', async () => {
    await create();
    leaving.reaction = () => 'hold';
    const running = cluster.query('SELECT id');
    await leaving.held();
    leaving.greeting = 'late';
    const waiting = cluster.query('SELECT id');
    await picked(2);
    resolver.update();
    await expect(waiting).rejects.toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    leaving.reaction = () => 'id';
    resolver.update(leaving.endpoint);
    await connected(cluster.balancer, 1);
    leaving.greeting = 'hello';
    leaving.greet();
    await cluster.query('SELECT id');
    leaving.connections[0]?.answer?.();
    await running;
  });

  it('a caller that gave up earlier is not called again, and nothing is left open', async () => {
    await create();
    leaving.reaction = () => 'hold';
    const running = cluster.query('SELECT id');
    await leaving.held();
    leaving.greeting = 'late';
    const late = cluster.query({ sql: 'SELECT id', timeout: 50 });
    await picked(2);
    clock.advance(50);
    await expect(late).rejects.toMatchObject({ code: 'PROTOCOL_SEQUENCE_TIMEOUT' });
    const moved = cluster.query('SELECT id');
    await picked(2);
    await leave(true);
    await moved;
    leaving.greet();
    leaving.connections[0]?.answer?.();
    await running;
    await until('all of its connections are closed', () => leaving.open === 0);
    await until('no call is left', () =>
      cluster.balancer.snapshot().endpoints.every((endpoint) => endpoint.inFlight === 0),
    );
  });
});
