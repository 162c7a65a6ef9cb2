import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from '../../../src/adapter/mysql2/index.js';
import {
  type EvenkeelError,
  type Observer,
  observerEventNames,
  outcomes,
  staticEndpoints,
} from '../../../src/index.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { refusingEndpoint } from '../../support/hanging-endpoint.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/mariadb.js';
import { ScriptedMysql } from '../../support/scripted-mysql.js';
import { until } from '../../support/until.js';

/** It must appear nowhere. */
const SECRET = 'hunter2-kP9x';

describe.skipIf(noMariadb)(titled('createPoolCluster: what goes wrong, in words'), () => {
  let world: MariadbWorld;
  let cluster: PoolCluster | undefined;
  /** Everything anybody was told. */
  let heard: unknown[];
  beforeAll(async () => {
    world = await startMariadbs(1, { args: ['--max-connections=10'] });
  });
  afterEach(async () => {
    await cluster?.end();
    cluster = undefined;
  });
  afterAll(async () => {
    await world?.close();
  });
  const observer = (): Observer =>
    Object.fromEntries(observerEventNames.map((name) => [name, (event: unknown) => heard.push(event)]));
  const create = (options: Partial<PoolClusterOptions>): PoolCluster => {
    heard = [];
    cluster = createPoolCluster({
      resolver: staticEndpoints(world.endpoints),
      waitTimeoutMs: 300,
      observer: observer(),
      ...application,
      ...options,
    });
    for (const event of ['warn', 'online', 'offline', 'remove'] as const)
      cluster.on(event, (value) => heard.push(value));
    return cluster;
  };
  const failing = (asking: Promise<unknown>): Promise<EvenkeelError> =>
    asking.then(
      () => {
        throw new Error('it did not fail');
      },
      (error) => error,
    );
  /** Asks once the servers have refused: how fast they do that is not what is tested. */
  const refused = async (by: PoolCluster): Promise<EvenkeelError> => {
    const told = (): boolean => by.balancer.snapshot().endpoints.some(({ lastError }) => lastError !== undefined);
    await until('they refused', told, 30_000);
    return failing(by.query('SELECT 1'));
  };
  const address = (): string => `${world.at(0).address}:${world.at(0).port}`;

  it.each([
    ['a wrong password', { password: SECRET }, 'ER_ACCESS_DENIED_ERROR'],
    ['an unknown user', { user: 'nobody', password: SECRET }, 'ER_ACCESS_DENIED_ERROR'],
    ['a database one may not see', { database: 'nowhere' }, 'ER_DBACCESS_DENIED_ERROR'],
  ] as const)('%s: names the endpoint and the reason, and no secret', async (_what, options, code) => {
    const error = await refused(create(options));
    expect(error.code).toBe('EVENKEEL_NOT_READY');
    expect(error.message).toContain(`no connection to ${address()}`);
    expect(error.cause).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: address() });
    expect(inspect(error, { depth: 10 })).toContain(code);
    const everything = inspect([error, heard, cluster?.balancer.snapshot(), cluster], { depth: 12, showHidden: false });
    expect(everything).not.toContain(SECRET);
    expect(JSON.stringify(cluster?.balancer.snapshot())).toContain(address());
  });

  it.each([
    [1049, "Unknown database 'nowhere'"],
    [1130, "Host '10.1.2.3' is not allowed to connect"],
    [1203, "User shop already has more than 'max_user_connections' active connections"],
  ])('a server that refuses with %i', async (code, message) => {
    await using server = await ScriptedMysql.start();
    server.greeting = { code, message };
    const replicas = create({ resolver: staticEndpoints([server.endpoint]), password: SECRET });
    const error = await refused(replicas);
    expect(error.code).toBe('EVENKEEL_NOT_READY');
    expect(error.message).toContain(`no connection to 127.0.0.1:${server.endpoint.port}: ${message}`);
    expect(error.message.match(/no connection to/g)).toHaveLength(1);
    expect(inspect([error, heard], { depth: 12 })).not.toContain(SECRET);
  });

  it('what works shows no secret either: connections in events, the pool of a lease', async () => {
    const replicas = create({});
    for (const event of ['connection', 'acquire', 'release'] as const) replicas.on(event, (value) => heard.push(value));
    await replicas.query('SELECT 1');
    const lease = await replicas.balancer.acquire();
    heard.push(lease.handle);
    lease.end(outcomes.success);
    expect(heard.length).toBeGreaterThan(3);
    expect(inspect([heard, replicas], { depth: 8 })).not.toContain(application.password);
    // They are there all the same, for the handshakes to come.
    await Promise.all(Array.from({ length: 3 }, () => replicas.query('DO SLEEP(0.02)')));
  });

  it('a server with too many connections is held to those it gave, and nobody hears of it but the observer', async () => {
    const replicas = create({ waitTimeoutMs: 20_000, connectionLimit: 30 });
    const answers = await Promise.allSettled(Array.from({ length: 60 }, () => replicas.query('DO SLEEP(0.02)')));
    expect(answers.filter(({ status }) => status === 'rejected')).toEqual([]);
    const told = heard.filter((event) => inspect(event).includes('Too many connections'));
    expect(told.length).toBeGreaterThan(0);
    expect(inspect(told)).toContain(address());
  });

  it('a server that was full from the start', async () => {
    const full = create({ connectionLimit: 10, waitTimeoutMs: 20_000 });
    const held = await Promise.all(Array.from({ length: 10 }, () => full.getConnection()));
    const late = createPoolCluster({ resolver: staticEndpoints(world.endpoints), waitTimeoutMs: 300, ...application });
    try {
      const error = await refused(late);
      expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
      expect(error.message).toContain(`no connection to ${address()}: Too many connections`);
    } finally {
      await late.end();
      for (const connection of held) connection.release();
    }
  });

  it('no server at all, one that refuses, and one that came too late', async () => {
    const resolver = new FakeResolver();
    resolver.update();
    const none = create({ resolver });
    expect(await failing(none.query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    expect(await failing(none.getConnection())).toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    await none.end();
    expect(await failing(none.query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    const nobody = await refusingEndpoint();
    const error = await refused(create({ resolver: staticEndpoints([nobody]) }));
    expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    expect(error.message).toContain(`connect ECONNREFUSED 127.0.0.1:${nobody.port}`);
  });

  it('all connections in use: a caller waits his time, and no more than so many wait', async () => {
    const replicas = create({ connectionLimit: 1, maxWaiting: 1, waitTimeoutMs: 200 });
    const held = await replicas.getConnection();
    const first = failing(replicas.query('SELECT 1'));
    await until('the first waits', () => replicas.balancer.snapshot().waiting === 1);
    expect(await failing(replicas.query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
    const error = await first;
    expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    expect(error.message).toContain('at capacity');
    held.release();
  });

  it('the names mysql2 has for waiting do what they say', async () => {
    const replicas = create({ connectionLimit: 1, waitForConnections: false });
    await until('it is connected', () => replicas.balancer.snapshot().state === 'ready');
    const held = await replicas.getConnection();
    expect(await failing(replicas.query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
    held.release();
  });
});
