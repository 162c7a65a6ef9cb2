import { inspect } from 'node:util';
import { type EvenkeelError, type Observer, observerEventNames, outcomes, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import { FakeResolver } from 'evenkeel/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { until } from '../../support/until.js';

/** It must appear nowhere. */
const SECRET = 'hunter2-kP9x';

describe.skipIf(noMariadb)(titled('createPoolCluster: error messages'), () => {
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
    await until('they refused', told);
    return failing(by.query('SELECT 1'));
  };
  const address = (): string => `${world.at(0).address}:${world.at(0).port}`;

  it.each([
    ['a wrong password', { password: SECRET }, 'ER_ACCESS_DENIED_ERROR'],
    ['an unknown user', { user: 'nobody', password: SECRET }, 'ER_ACCESS_DENIED_ERROR'],
    ['a database one may not see', { database: 'nowhere' }, 'ER_DBACCESS_DENIED_ERROR'],
  ] as const)('%s: the error names the endpoint and the reason, and no secret', async (_what, options, code) => {
    // Who waits for a server hears of it as soon as it has refused: his own time is much longer.
    const waiting = create({ waitTimeoutMs: 600_000, ...options });
    const error = await failing(waiting.query('SELECT 1'));
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: address(), cause: { code } });
    expect(error.message).toContain(`no connection to ${address()}`);
    // So does who comes later, and who asks for a connection.
    expect(await failing(waiting.getConnection())).toMatchObject({ code: 'EVENKEEL_CONNECT', cause: { code } });
    const everything = inspect([error, heard, cluster?.balancer.snapshot(), cluster], { depth: 12, showHidden: false });
    expect(everything).not.toContain(SECRET);
    expect(JSON.stringify(cluster?.balancer.snapshot())).toContain(address());
  });

  it.each([
    [1049, "Unknown database 'nowhere'", 'EVENKEEL_CONNECT'],
    [1130, "Host '10.1.2.3' is not allowed to connect", 'EVENKEEL_CONNECT'],
    [1203, "User shop already has more than 'max_user_connections' active connections", 'EVENKEEL_NOT_READY'],
  ])("a server that refuses with %i: the error has the server's message", async (code, message, told) => {
    await using server = await ScriptedMysql.start();
    server.greeting = { code, message };
    const replicas = create({ resolver: staticEndpoints([server.endpoint]), password: SECRET });
    const error = await refused(replicas);
    expect(error.code).toBe(told);
    expect(error.message).toContain(`no connection to 127.0.0.1:${server.endpoint.port}: ${message}`);
    expect(error.message.match(/no connection to/g)).toHaveLength(1);
    expect(inspect([error, heard], { depth: 12 })).not.toContain(SECRET);
  });

  describe('a wrong password', () => {
    const denied = { code: 1045, message: "Access denied for user 'app'@'10.1.2.3' (using password: YES)" };
    const over = async (greetings: readonly ScriptedMysql['greeting'][]): Promise<ScriptedMysql[]> => {
      const servers = await Promise.all(greetings.map(() => ScriptedMysql.start()));
      for (const [index, greeting] of greetings.entries()) (servers[index] as ScriptedMysql).greeting = greeting;
      return servers;
    };
    const using = async (servers: ScriptedMysql[], use: () => Promise<void>): Promise<void> => {
      try {
        await use();
      } finally {
        await cluster?.end();
        await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      }
    };
    const resolverOf = (servers: readonly ScriptedMysql[]) => staticEndpoints(servers.map(({ endpoint }) => endpoint));
    const refusals = (by: PoolCluster): number =>
      by.balancer.snapshot().endpoints.filter(({ lastError }) => lastError?.includes('Access denied')).length;

    it('fails calls once every server has refused the log-in, and no longer when one accepts it', async () => {
      const servers = await over([denied, denied, denied]);
      await using(servers, async () => {
        const replicas = create({ resolver: resolverOf(servers), waitTimeoutMs: 600_000 });
        const waiting = Array.from({ length: 5 }, () => failing(replicas.query('SELECT 1')));
        for (const error of await Promise.all(waiting)) {
          expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', cause: { errno: 1045 } });
          expect(error.message).toMatch(
            /: no endpoint can be connected to \(no connection to 127\.0\.0\.1:\d+: Access denied/,
          );
        }
        (servers[1] as ScriptedMysql).greeting = 'hello';
        await until('one is connected', () => replicas.balancer.snapshot().state === 'ready');
        await replicas.query('SELECT 1');
      });
    });

    it('is no reason to give up while another server has not answered', async () => {
      const servers = await over([denied, 'silent']);
      await using(servers, async () => {
        const replicas = create({ resolver: resolverOf(servers), waitTimeoutMs: 600_000 });
        const answer = replicas.query('SELECT 1');
        await until('one has refused', () => refusals(replicas) === 1);
        expect(replicas.balancer.snapshot().waiting).toBe(1);
        (servers[1] as ScriptedMysql).greeting = 'hello';
        await answer;
      });
    });

    it('at the servers of one of two services does not fail calls to the other', async () => {
      const servers = await over([denied, 'silent']);
      await using(servers, async () => {
        const [primary, replica] = servers.map((server) => ({ resolver: resolverOf([server]) })) as [object, object];
        const both = createPoolCluster({ services: { primary, replica }, waitTimeoutMs: 600_000, ...application });
        cluster = both;
        const answer = both.of('*').query('SELECT 1');
        await until('one has refused', () => refusals(both) === 1);
        expect(await failing(both.of('primary').query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_CONNECT' });
        (servers[1] as ScriptedMysql).greeting = 'hello';
        await answer;
        (servers[1] as ScriptedMysql).greeting = denied;
        (servers[1] as ScriptedMysql).end('badly');
        await until(
          'both have refused',
          () => {
            const [, balancer] = [...both.balancers.values()];
            return balancer?.snapshot().endpoints[0]?.lastError?.includes('Access denied') === true;
          },
          30_000,
        );
        expect(await failing(both.of('*').query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_CONNECT' });
      });
    });
  });

  it('without errors: connections in events and the pool of a lease show no secret', async () => {
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

  it('a server with too many connections keeps those it accepted, and only the observer is notified', async () => {
    const replicas = create({ waitTimeoutMs: 20_000, connectionLimit: 30 });
    const answers = await Promise.allSettled(Array.from({ length: 60 }, () => replicas.query('DO SLEEP(0.02)')));
    expect(answers.filter(({ status }) => status === 'rejected')).toEqual([]);
    const told = heard.filter((event) => inspect(event).includes('Too many connections'));
    expect(told.length).toBeGreaterThan(0);
    expect(inspect(told)).toContain(address());
  });

  it('a server that was full from the start: the message says so', async () => {
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

  it('no server, a server that refuses, and a server that comes too late: each has a message of its own', async () => {
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

  it('all connections in use: a caller waits up to its time limit, and only a limited number may wait', async () => {
    const replicas = create({ connectionLimit: 1, maxWaiting: 1, waitTimeoutMs: 1_000 });
    await replicas.ready();
    const held = await replicas.getConnection();
    const first = failing(replicas.query('SELECT 1'));
    await until('the first waits', () => replicas.balancer.snapshot().waiting === 1);
    expect(await failing(replicas.query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
    const error = await first;
    expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    expect(error.message).toContain('at capacity');
    held.release();
  });

  it("mysql2's own options for waiting do what they say", async () => {
    const replicas = create({ connectionLimit: 1, waitForConnections: false });
    await until('it is connected', () => replicas.balancer.snapshot().state === 'ready');
    const held = await replicas.getConnection();
    expect(await failing(replicas.query('SELECT 1'))).toMatchObject({ code: 'EVENKEEL_QUEUE_FULL' });
    held.release();
  });
});
