import { type ObserverEvents, roundRobin, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { createPoolCluster as createStockCluster } from 'mysql2/promise';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  application,
  type Mariadb,
  type MariadbWorld,
  noMariadb,
  startMariadbs,
  titled,
} from '../../support/databases/mariadb.js';
import type { Readers } from '../../support/readers.js';
import { until } from '../../support/until.js';
import { PROOF, readers, report } from './support/traffic.js';

const WORKERS = 30;
/** Answers between two steps of a scene. */
const SOME = PROOF ? 5_000 : 500;
/** How long a server may be silent; one that is not frozen answers sooner, also on a busy machine. */
const SILENT_MS = PROOF ? 300 : 2_000;

describe.skipIf(noMariadb)(titled('createPoolCluster when servers fail'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster;
  let ejections: string[];
  let attempts: ObserverEvents['attemptEnded'][];
  let states: string[];
  beforeAll(async () => {
    world = await startMariadbs(3);
  });
  afterAll(async () => {
    await world?.close();
  });
  beforeEach(async () => {
    await world.renew();
    states = [];
    ejections = [];
    attempts = [];
  });
  afterEach(async () => {
    await cluster?.end();
  });
  /** Servers in use. */
  const start = async (count: number, more: Partial<PoolClusterOptions> = {}): Promise<readonly Mariadb[]> => {
    const servers = world.all.slice(0, count);
    cluster = createPoolCluster({
      resolver: staticEndpoints(servers.map(({ endpoint }) => endpoint)),
      picker: roundRobin(),
      observer: {
        ejected: ({ endpoint }) => ejections.push(endpoint.key),
        attemptEnded: (event) => attempts.push(event),
        subchannelChanged: ({ to }) => states.push(to),
      },
      ...application,
      ...more,
    });
    await until('all are connected', () => ready() === count);
    return servers;
  };
  const ready = (): number =>
    cluster.balancer.snapshot().endpoints.filter(({ state, suspect }) => state === 'ready' && !suspect).length;
  const more = (reading: Readers, count = SOME): Promise<void> => {
    const goal = reading.total + count;
    return until(`${count} more answers`, () => reading.total >= goal);
  };

  it('fails no idempotent read when a server gets SIGKILL, and uses the server again when it answers', async () => {
    await start(3, { idempotent: true });
    const reading = readers(cluster, WORKERS);
    await more(reading);
    await world.at(1).kill();
    await more(reading);
    const before = reading.answers.get(2) ?? 0;
    await world.at(1).start();
    const answersAtMs = performance.now();
    await until('it serves again', () => (reading.answers.get(2) ?? 0) > before);
    report('kill -9 and back', { 'ms until it serves again': Math.round(performance.now() - answersAtMs) });
    await more(reading);
    await reading.stop();
    expect(reading.errors).toEqual([]);
    expect(ready()).toBe(3);
    report('kill -9 and back', { reads: reading.total, failed: reading.errors.length });
  });

  it('connects again at once, and reports no failure, when the servers close idle connections', async () => {
    const closeIdleAfter = (seconds: number): Promise<unknown> => {
      const timeouts = ['wait_timeout', 'interactive_timeout'].map((name) => `SET GLOBAL ${name} = ${seconds}`);
      return Promise.all(world.all.map((server) => server.script(timeouts)));
    };
    await closeIdleAfter(2);
    try {
      await start(2);
      const connectedOften = (): boolean => states.filter((state) => state === 'ready').length >= 6;
      await until('every connection was closed and opened twice', connectedOften);
    } finally {
      await closeIdleAfter(28_800);
    }
    expect(states).not.toContain('backoff');
    await cluster.query('SELECT 1');
    expect(ejections).toEqual([]);
  });

  it('repeats no statement that is not marked idempotent: a write whose connection dies fails, once', async () => {
    await start(2);
    const held = cluster.query('DO SLEEP(30)');
    let server = -1;
    await until('it runs', () => {
      server = cluster.balancer.snapshot().endpoints.findIndex(({ inFlight }) => inFlight === 1);
      return server >= 0;
    });
    await until('the server has it', async () => {
      const [{ n }] = await world
        .at(server)
        .sql("SELECT COUNT(*) AS n FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'");
      return Number(n) === 1;
    });
    const failing = expect(held).rejects.toMatchObject({ fatal: true });
    await world.at(server).kill();
    await failing;
    expect(attempts).toHaveLength(1);
    expect(attempts[0]).toMatchObject({ outcome: { kind: 'failure', cause: 'reset' }, retrying: false });
  });

  it('recovers by itself after all servers were down; the stock PoolCluster does not', async () => {
    const servers = await start(2, { waitTimeoutMs: 500, idempotent: true });
    const stock = createStockCluster();
    for (const { endpoint, name } of servers) {
      stock.add(name, { host: endpoint.address, port: endpoint.port, ...application });
    }
    await stock.of('*').query('SELECT 1');
    await cluster.query('SELECT 1');

    await Promise.all(servers.map((server) => server.kill()));
    // A statement sent before that is told of the connection it was lost on.
    await until('the client knows', () => ready() === 0);
    await expect(cluster.query('SELECT 1')).rejects.toMatchObject({ code: expect.stringMatching(/^EVENKEEL_/) });
    // As an application would go on asking while they are away.
    for (let i = 0; i < 12; i++)
      await stock
        .of('*')
        .query('SELECT 1')
        .catch(() => {});

    await Promise.all(servers.map((server) => server.start()));
    await until('both are connected', () => ready() === 2);
    await cluster.query('SELECT 1');
    await expect(stock.of('*').query('SELECT 1')).rejects.toThrow(/Pool does not exist/i);
    await stock.end();
  });

  it('makes no caller wait for a frozen server longer than its timeout, and gives the server no call after 5 tries at most', async () => {
    await start(3);
    const ask = (): Promise<unknown> => cluster.query({ sql: 'SELECT 1', timeout: SILENT_MS });
    // Several connections to each.
    await Promise.all(Array.from({ length: 30 }, () => cluster.query('DO SLEEP(0.1)')));
    const frozen = world.at(1);
    const key = `${frozen.address}:${frozen.port}`;
    const isUsed = (): boolean =>
      cluster.balancer.snapshot().endpoints.some((at) => at.key === key && at.state === 'ready' && !at.suspect);
    const before = attempts.length;
    frozen.freeze();
    const failures: unknown[] = [];
    for (let i = 0; i < 60 && isUsed(); i++) await ask().catch((error) => failures.push(error));
    expect(isUsed()).toBe(false);
    expect(failures.length).toBeGreaterThanOrEqual(1);
    for (const error of failures) expect(error).toMatchObject({ code: 'PROTOCOL_SEQUENCE_TIMEOUT' });
    const tries = attempts.slice(before).filter(({ endpoint }) => endpoint.key === key);
    expect(tries.length).toBeLessThanOrEqual(5);
    // With two seconds for each try, its connections may be found dead first.
    if (PROOF) expect(ejections).toContain(key);
    report('a frozen server', { 'tries until it was ejected': tries.length });
    // The others serve on, and nothing of it comes back late.
    const later = attempts.length;
    for (let i = 0; i < 40; i++) await cluster.query({ sql: 'SELECT 1', timeout: 5_000 }).catch(() => {});
    // Each trial is one statement; one that failed ejects again.
    const trials = attempts.slice(later).filter(({ endpoint }) => endpoint.key === key);
    expect(trials.length).toBeLessThanOrEqual(ejections.filter((ejected) => ejected === key).length);
    const others = attempts.slice(later).filter(({ endpoint }) => endpoint.key !== key);
    expect(others.filter(({ outcome }) => outcome.kind !== 'success')).toEqual([]);
    frozen.thaw();
    await until(
      'it serves again',
      async () => {
        await ask().catch(() => {});
        return attempts.slice(-6).some(({ endpoint, outcome }) => endpoint.key === key && outcome.kind === 'success');
      },
      30_000,
    );
    await until('what was cut is gone', async () => (await frozen.connections()) <= 10);
  });

  it('sends a frozen server nothing more once it is ejected: of six callers, only running calls and at most 4 others fail', async () => {
    await start(3);
    const callers = 6;
    await Promise.all(Array.from({ length: 30 }, () => cluster.query('DO SLEEP(0.1)')));
    const frozen = world.at(1);
    const key = `${frozen.address}:${frozen.port}`;
    const seen = () => cluster.balancer.snapshot().endpoints.find((endpoint) => endpoint.key === key);
    const before = attempts.length;
    let startedBy: number | undefined;
    const watch = (): void => {
      if (ejections.includes(key)) startedBy ??= seen()?.started;
    };
    frozen.freeze();
    const call = async (): Promise<void> => {
      while (!ejections.includes(key)) {
        await cluster.query({ sql: 'SELECT 1', timeout: SILENT_MS }).catch(() => {});
        watch();
      }
    };
    await Promise.all(Array.from({ length: callers }, call));
    await until('nothing waits for it', () => seen()?.inFlight === 0);
    const tries = attempts.slice(before).filter(({ endpoint }) => endpoint.key === key);
    report('a frozen server and six callers', { 'tries that failed': tries.length });
    // The fifth failure in a row ejects it; the other callers may each have a statement under way there by then.
    expect(tries.length).toBeLessThanOrEqual(4 + callers);
    // One may be its trial.
    expect((seen()?.started ?? 0) - (startedBy ?? 0)).toBeLessThanOrEqual(1);
    frozen.thaw();
    await until('what was cut is gone', async () => (await frozen.connections()) <= 10);
  });

  it('destroys the connection of a transaction whose server froze', async () => {
    await start(1);
    const connection = await cluster.getConnection();
    await connection.beginTransaction();
    const { threadId } = connection;
    world.at(0).freeze();
    await expect(connection.execute({ sql: 'SELECT 1', timeout: 200 })).rejects.toMatchObject({
      code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    });
    connection.release();
    expect(cluster.balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
    world.at(0).thaw();
    const [rows] = await cluster.query<never[]>('SELECT CONNECTION_ID() AS id');
    expect((rows[0] as unknown as { id: number }).id).not.toBe(threadId);
  });

  it('never hands out a connection that died while it was idle', async () => {
    await start(1, { validateAfterMs: 0 });
    await Promise.all(Array.from({ length: 5 }, () => cluster.query('DO SLEEP(0.05)')));
    const [{ n }] = await world
      .at(0)
      .sql('SELECT COUNT(*) AS n FROM information_schema.processlist WHERE user = ?', [application.user]);
    expect(Number(n)).toBeGreaterThan(1);
    // Killed by an administrator, all at once; the client may not have heard of it yet.
    const rows = await world
      .at(0)
      .sql('SELECT id FROM information_schema.processlist WHERE user = ?', [application.user]);
    const killing = Promise.all((rows as { id: number }[]).map(({ id }) => world.at(0).sql(`KILL ${id}`)));
    const asking = Promise.all(Array.from({ length: 20 }, () => cluster.query('SELECT 1')));
    // These may run on one as it is killed: that may be known before all are.
    await Promise.all([killing, asking.catch(() => {})]);
    for (let i = 0; i < 10; i++) await cluster.query('SELECT 1');
  });
});
