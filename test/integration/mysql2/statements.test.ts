import { AsyncLocalStorage } from 'node:async_hooks';
import { hash, type ObserverEvents, roundRobin, staticEndpoints } from 'evenkeel';
import { createPoolCluster, type PoolCluster, type PoolClusterOptions } from 'evenkeel/mysql2';
import type { PoolConnection, RowDataPacket } from 'mysql2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ScriptedConnection, ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { endText } from '../../support/fixtures/attempt-text.js';
import { until } from '../../support/until.js';

let servers: ScriptedMysql[];
let cluster: PoolCluster;
let attempts: ObserverEvents['attemptEnded'][];

beforeEach(async () => {
  servers = [await ScriptedMysql.start(), await ScriptedMysql.start()];
  attempts = [];
});
afterEach(async () => {
  for (const server of servers) server.end('badly');
  await cluster?.end();
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
});
const create = async (options: Partial<PoolClusterOptions> = {}, count = 2): Promise<void> => {
  cluster = createPoolCluster({
    resolver: staticEndpoints(servers.slice(0, count).map(({ endpoint }) => endpoint)),
    picker: roundRobin(),
    user: 'app',
    observer: { attemptEnded: (event) => attempts.push(event) },
    ...options,
  });
  await until('all are connected', () => {
    const { endpoints } = cluster.balancer.snapshot();
    return endpoints.length === count && endpoints.every(({ state }) => state === 'ready');
  });
};
const first = (): ScriptedMysql => servers[0] as ScriptedMysql;
const statements = (server: ScriptedMysql): number =>
  server.connections.reduce((sum, connection) => sum + connection.statements.length, 0);
/** What the attempts so far were, in short. */
const story = (): string[] => attempts.map(endText);
const holding = (): ScriptedMysql | undefined =>
  servers.find(({ connections }) => connections.some(({ answer }) => answer !== undefined));
const oneHolds = async (): Promise<ScriptedMysql> => {
  await until('one has it', () => holding() !== undefined);
  return holding() as ScriptedMysql;
};
const holdAll = (): void => {
  for (const server of servers) server.reaction = () => 'hold';
};
const answerAll = (): void => {
  for (const server of servers) server.reaction = () => 'id';
};

describe('a statement whose connection dies', () => {
  it.each([
    ['that is marked', {}, { sql: 'SELECT id', idempotent: true }, true],
    ['of a service that is only read', { idempotent: true }, 'SELECT id', true],
    ['that is marked otherwise', { idempotent: true }, { sql: 'SELECT id', idempotent: false }, false],
    ['of which nothing is known', {}, 'SELECT id', false],
  ] as const)('%s: is repeated elsewhere only if that is safe', async (_what, options, statement, isRepeated) => {
    await create(options);
    holdAll();
    const asking = cluster.query(statement);
    asking.catch(() => {});
    const victim = await oneHolds();
    answerAll();
    victim.end('badly');
    if (isRepeated) await asking;
    else await expect(asking).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(story()).toEqual(isRepeated ? ['failure reset again', 'success'] : ['failure reset']);
  });

  it('before the server had read it, as its error says: is always repeated', async () => {
    await create();
    const said = { code: 4031, message: 'The client was disconnected by the server because of inactivity' };
    for (const server of servers) {
      server.reaction = () => {
        answerAll();
        return said;
      };
    }
    await cluster.query('INSERT INTO t VALUES (1)');
    expect(story()).toEqual(['not-started again', 'success']);
  });

  it('because the server shuts down is not repeated', async () => {
    await create();
    let seen: ScriptedConnection | undefined;
    for (const server of servers) {
      server.reaction = () => {
        seen = server.connections.find((connection) => connection.statements.length > 0);
        return { code: 1053, message: 'Server shutdown in progress' };
      };
    }
    await expect(cluster.query('INSERT INTO t VALUES (1)')).rejects.toMatchObject({ errno: 1053 });
    expect(story()).toEqual(['failure reset']);
    await until('the connection it came by is closed', () => seen?.socket.destroyed === true);
  });

  it('inside a transaction is never repeated, idempotent or not', async () => {
    await create({ idempotent: true });
    const connection = await cluster.getConnection();
    holdAll();
    const asking = connection.query('SELECT id');
    asking.catch(() => {});
    const victim = await oneHolds();
    answerAll();
    victim.end('badly');
    await expect(asking).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(servers.filter((server) => server !== victim).map(statements)).toEqual([0]);
    expect(cluster.balancer.snapshot().endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0)).toBe(0);
    expect(story()).toEqual(['failure reset']);
    connection.release();
  });
});

describe('an error that the server answers with', () => {
  it.each([
    [1213, 'Deadlock found when trying to get lock'],
    [1062, 'Duplicate entry'],
    [1205, 'Lock wait timeout exceeded'],
    [1317, 'Query execution was interrupted'],
  ])(
    '%i is the application’s: it does not count against the server, and the connection is used again',
    async (code, message) => {
      await create({ idempotent: true }, 1);
      first().reaction = () => ({ code, message });
      await expect(cluster.query('UPDATE t SET a = 1')).rejects.toMatchObject({ errno: code, sqlMessage: message });
      expect(story()).toEqual(['success']);
      first().reaction = () => 'id';
      await cluster.query('SELECT id');
      expect(first().accepted).toBe(1);
    },
  );

  it('has the stack of the caller', async () => {
    await create({}, 1);
    first().reaction = () => ({ code: 1064, message: 'You have an error in your SQL syntax' });
    const error = await cluster.query('SELEC').catch((reason: Error) => reason);
    expect((error as Error).stack).toContain('statements.test.ts');
  });
});

describe('a statement whose server hangs up on every new connection', () => {
  it('waits for another server while all others are at their limit', async () => {
    await create({ connectionLimit: 2 });
    holdAll();
    const asking = [1, 2, 3].map(() => cluster.query('SELECT id'));
    const heldBy = (server: ScriptedMysql): ScriptedConnection[] =>
      server.connections.filter(({ answer }) => answer !== undefined);
    await until('all three are held', () => servers.flatMap(heldBy).length === 3);
    const [victim, full] = servers.toSorted((a, b) => heldBy(a).length - heldBy(b).length) as [
      ScriptedMysql,
      ScriptedMysql,
    ];
    const { accepted } = victim;
    victim.greeting = 'reset';
    answerAll();
    const waiting = cluster.query('SELECT id');
    waiting.catch(() => {});
    await until('the victim has hung up on it', () => victim.accepted > accepted);
    await until('it waits', () => cluster.balancer.snapshot().waiting === 1);
    heldBy(full)[0]?.answer?.();
    await waiting;
    expect(story().every((attempt) => attempt === 'success')).toBe(true);
    for (const held of servers.flatMap(heldBy)) held.answer?.();
    await Promise.all(asking);
  });

  it('waits for the server when no connection to it is left, while another one is being opened', async () => {
    await create({}, 1);
    holdAll();
    const lost = expect(cluster.query('SELECT id')).rejects.toMatchObject({ code: 'ECONNRESET' });
    const { connections } = await oneHolds();
    answerAll();
    first().greeting = 'silent';
    const opening = cluster.query('SELECT id');
    opening.catch(() => {});
    await until('another is being opened', () => first().accepted === 2);
    connections[0]?.socket.resetAndDestroy();
    await lost;
    first().greeting = 'reset';
    const refused = cluster.query('SELECT id');
    refused.catch(() => {});
    await until('it was hung up on', () => first().accepted >= 3);
    await until('the server is out', () => cluster.balancer.snapshot().endpoints[0]?.state !== 'ready');
    first().greeting = 'hello';
    await Promise.all([opening, refused]);
  });
});

describe('a writer that refuses a statement because it is read-only', () => {
  it.each([
    ['one change', {}, 'INSERT INTO t VALUES (1)', true],
    ['one change after comments', {}, '/**/ /* by call */ -- x\n update t SET a = 1', true],
    ['what may have done something before', {}, 'CALL book(7)', false],
    ['the same behind comments', {}, '/**/ CALL book(7) /* */ INSERT', false],
    ['what only some servers read', {}, '/*!CALL book(7) */ INSERT INTO t VALUES (1)', false],
    ['several statements in one', { multipleStatements: true }, 'INSERT INTO t VALUES (1)', false],
    ['several by a flag', { flags: ['MULTI_STATEMENTS'] }, 'INSERT INTO t VALUES (1)', false],
  ])('%s', async (_what, options, sql, isRepeated) => {
    await create({ role: 'primary', ...options });
    let refused = false;
    const sent: string[] = [];
    for (const server of servers) {
      server.reaction = (asked) => {
        sent.push(asked);
        if (refused || asked.startsWith('SELECT')) return 'id';
        refused = true;
        return { code: 1290, message: 'running with the --read-only option' };
      };
    }
    const running = cluster.query(sql);
    if (isRepeated) await running;
    else await expect(running).rejects.toMatchObject({ errno: 1290 });
    expect(sent.filter((statement) => statement === sql)).toHaveLength(isRepeated ? 2 : 1);
  });
});

describe('a Galera node that is no longer in sync', () => {
  it.each([
    ['a change', {}, 'INSERT INTO t VALUES (1)', true],
    ['a read', {}, '/* */ (SELECT 1) UNION SELECT 2', true],
    ['what may have done something before', {}, 'CALL book(7)', false],
    [
      'several statements in one',
      { multipleStatements: true },
      'INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)',
      false,
    ],
  ])('%s', async (_what, options, sql, isRepeated) => {
    await create(options);
    const sent: string[] = [];
    for (const server of servers) {
      server.reaction = (asked) => {
        if (sent.push(asked) > 1) return 'id';
        return { code: 1047, message: 'WSREP has not yet prepared node for application use' };
      };
    }
    const running = cluster.query(sql);
    if (isRepeated) await running;
    else await expect(running).rejects.toMatchObject({ errno: 1047 });
    expect(sent).toEqual(isRepeated ? [sql, sql] : [sql]);
  });
});

describe('a connection that was idle for long', () => {
  // Longer than a busy machine takes to answer; only one test has it pass.
  const options = { validateAfterMs: 0, validateTimeoutMs: 20_000 };

  it('is checked by a ping first', async () => {
    await create(options, 1);
    await cluster.query('SELECT id');
    await cluster.query('SELECT id');
    expect(first().connections[0]).toMatchObject({ pings: 2, id: 1 });
  });

  it('that does not answer: the statement goes to another server, and the caller does not notice', async () => {
    await create({ ...options, validateTimeoutMs: 100 });
    first().answersPings = false;
    for (let i = 0; i < 4; i++) await cluster.query('INSERT INTO t VALUES (1)');
    expect(statements(first())).toBe(0);
    expect(story()).toContain('failure timeout again');
    await until('it was cut', () => first().open <= 1);
  });

  it('that is dead: another one is opened', async () => {
    await create(options, 1);
    const [seen] = first().connections;
    first().answersPings = false;
    const asking = cluster.query('SELECT id');
    await until('it is asked', () => seen?.pings === 1);
    first().answersPings = true;
    seen?.socket.resetAndDestroy();
    await asking;
    expect(first().accepted).toBe(2);
  });
});

describe('a timeout', () => {
  it('for a statement counts from the call, and destroys its connection', async () => {
    await create({}, 1);
    holdAll();
    await expect(cluster.query({ sql: 'SELECT id', timeout: 50 })).rejects.toMatchObject({
      code: 'PROTOCOL_SEQUENCE_TIMEOUT',
      message: expect.stringContaining(`127.0.0.1:${first().endpoint.port}`),
    });
    expect(story()).toEqual(['failure timeout']);
    await until('it is gone', () => first().accepted > 1 || first().open === 0);
    answerAll();
    await cluster.query('SELECT id');
    expect(first().connections.every(({ id }) => id > 1)).toBe(true);
  });

  it('on the only, just opened connection to a server opens another one without a pause', async () => {
    const states: string[] = [];
    await create({ observer: { subchannelChanged: ({ to }) => states.push(to) } }, 1);
    holdAll();
    await expect(cluster.query({ sql: 'SELECT id', timeout: 20 })).rejects.toMatchObject({
      code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    });
    first().reaction = () => 'id';
    await cluster.query('SELECT id');
    expect(first().accepted).toBe(2);
    expect(states).not.toContain('backoff');
  });

  it('on the only connection to a server keeps statements away until another one is open', async () => {
    await create({});
    holdAll();
    first().greeting = 'late';
    await Promise.allSettled([1, 2].map(() => cluster.query({ sql: 'SELECT id', timeout: 20 })));
    for (const server of servers) server.reaction = () => 'id';
    await until('it is asked for another connection', () => first().accepted === 2);
    for (let count = 0; count < 6; count++) await cluster.query({ sql: 'SELECT id', timeout: 500 });
    expect(first().connections.length).toBe(1);
    first().greet();
    await until('it gets statements again', async () => {
      await cluster.query('SELECT id');
      return statements(first()) > 1;
    });
  });

  it('can be set once for all statements, also those on a checked-out connection', async () => {
    await create({ queryTimeoutMs: 50 }, 1);
    holdAll();
    const late = { code: 'PROTOCOL_SEQUENCE_TIMEOUT' };
    await expect(cluster.query('SELECT id')).rejects.toMatchObject(late);
    const connection = await cluster.getConnection();
    await expect(connection.query('SELECT id')).rejects.toMatchObject(late);
    await expect(connection.query('SELECT id')).rejects.toThrow();
    connection.release();
    expect(story()).toEqual(['failure timeout', 'failure timeout']);
  });

  it('also ends the wait for a server', async () => {
    await create({ connectionLimit: 1 }, 1);
    const held = await cluster.getConnection();
    await expect(cluster.query({ sql: 'SELECT id', timeout: 50 })).rejects.toMatchObject({
      code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    });
    expect(cluster.balancer.snapshot().waiting).toBe(0);
    held.release();
    await cluster.query('SELECT id');
  });

  it('for connecting applies to a server that accepts and sends nothing', async () => {
    await create({ waitTimeoutMs: 100 }, 1);
    const held = await cluster.getConnection();
    first().greeting = 'silent';
    await expect(cluster.query('SELECT id')).rejects.toMatchObject({
      code: 'EVENKEEL_NOT_READY',
      message: expect.stringContaining('no connection to 127.0.0.1'),
    });
    held.release();
  });
});

describe('a server that accepts connections and sends no greeting', () => {
  it('counts as failing for statements that time out before they have a connection', async () => {
    await create({ connectionLimit: 5 }, 1);
    const held = await cluster.getConnection();
    first().greeting = 'silent';
    await expect(cluster.query({ sql: 'SELECT id', timeout: 50 })).rejects.toMatchObject({
      code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    });
    expect(story()).toEqual(['failure timeout']);
    held.release();
  });

  it('is abandoned after its first handshake that took too long, however many callers wait', async () => {
    await create({ pool: { connectTimeoutMs: 200 } }, 1);
    first().greeting = 'silent';
    first().end('badly');
    let asking = true;
    const ask = async (): Promise<void> => {
      while (asking) await cluster.query({ sql: 'SELECT id', timeout: 20 }).catch(() => {});
    };
    const callers = [ask(), ask(), ask()];
    try {
      await until('it is known', () => cluster.balancer.snapshot().endpoints[0]?.state === 'backoff');
    } finally {
      asking = false;
      await Promise.all(callers);
    }
  });
});

describe('a checked-out connection', () => {
  it('that is released twice is not taken away from its next user', async () => {
    await create({ connectionLimit: 2 }, 1);
    const mine = await cluster.getConnection();
    mine.release();
    const theirs = await cluster.getConnection();
    expect(theirs.threadId).toBe(mine.threadId);
    mine.release();
    const other = await cluster.getConnection();
    expect(other.threadId).not.toBe(theirs.threadId);
    theirs.release();
    other.release();
  });

  it('that is released while a statement runs is free when that has ended', async () => {
    await create({ connectionLimit: 1 }, 1);
    const connection = await cluster.getConnection();
    holdAll();
    const running = connection.query('SELECT id');
    const held = await first().held();
    connection.release();
    expect(cluster.balancer.snapshot().endpoints[0]?.inFlight).toBe(1);
    const next = cluster.getConnection();
    held.answer?.();
    await running;
    (await next).release();
    expect(first().accepted).toBe(1);
  });

  it('that is destroyed ends its running statement', async () => {
    await create({}, 1);
    const connection = await cluster.getConnection();
    holdAll();
    const running = connection.query('SELECT id');
    await first().held();
    connection.destroy();
    await expect(running).rejects.toThrow(/destroyed by its user/);
    expect(story()).toEqual(['cancelled']);
  });

  it('stays with a server that accepts no further connection', async () => {
    await create({ idempotent: true });
    const held: PoolConnection[] = [];
    const get = (): Promise<PoolConnection> =>
      new Promise((resolve, reject) => cluster.getConnection((error, got) => (error ? reject(error) : resolve(got))));
    for (let i = 0; i < 2; i++) held.push(await get());
    await first().stopListening();
    // Its listener is closed: new calls go to the other one, without an error.
    for (let i = 0; i < 6; i++) await cluster.query('SELECT id');
    const before = statements(first());
    expect(before).toBe(0);
    for (const connection of held) {
      await connection.promise().query('SELECT id');
      connection.release();
    }
    expect(first().accepted).toBe(1);
  });

  it('is cut after the cluster has ended and its time is over', async () => {
    await create({ pool: { drainTimeoutMs: 50 } }, 1);
    const connection = await cluster.getConnection();
    holdAll();
    const running = connection.query('SELECT id');
    running.catch(() => {});
    await first().held();
    await cluster.end();
    await expect(running).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    await until('nothing is open', () => first().open === 0);
  });
});

describe('the callback and the promise form', () => {
  it('call back in the async context of the caller', async () => {
    await create();
    const context = new AsyncLocalStorage<string>();
    const heard: unknown[] = [];
    await context.run('mine', async () => {
      await new Promise<void>((resolve) => {
        cluster.query('SELECT id', (error, rows: RowDataPacket[], fields) => {
          heard.push(error, rows.length, fields[0]?.name, context.getStore());
          resolve();
        });
      });
      await new Promise<void>((resolve) => {
        cluster.getConnection((error, connection) => {
          heard.push(error, typeof connection.threadId, context.getStore());
          connection.release();
          resolve();
        });
      });
    });
    expect(heard).toEqual([null, 1, 'id', 'mine', null, 'number', 'mine']);
  });

  it('fill in values, also named ones, and escape as mysql2 does', async () => {
    await create({ namedPlaceholders: true, timezone: 'Z' }, 1);
    await cluster.query('SELECT ? AS a', ["it's"]);
    await cluster.query({ sql: 'SELECT :a AS a', values: { a: 7 } });
    await cluster.query({ sql: 'SELECT ? AS a' }, [1]);
    expect(first().connections[0]?.statements).toEqual(["SELECT 'it\\'s' AS a", 'SELECT 7 AS a', 'SELECT 1 AS a']);
    expect(cluster.format('a = ? AND ?? = 1', [new Date(0), 'b'])).toBe("a = '1970-01-01 00:00:00.000' AND `b` = 1");
    expect(cluster.escape("it's")).toBe("'it\\'s'");
    expect(cluster.escapeId('a.b')).toBe('`a`.`b`');
    expect(cluster.promise()).toBe(cluster);
  });

  it('accept statements that inherit their text and values, as tagged templates make them', async () => {
    await create({}, 1);
    class Template {
      get sql(): string {
        return 'SELECT ? AS a';
      }
      get values(): unknown[] {
        return [7];
      }
    }
    await cluster.query(new Template());
    expect(first().connections[0]?.statements).toEqual(['SELECT 7 AS a']);
  });

  it('leave errors thrown in a callback to the application, and the connection stays usable', async () => {
    await create({ connectionLimit: 1 }, 1);
    const uncaught: string[] = [];
    const note = (error: Error): unknown => uncaught.push(error.message);
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', note);
    try {
      first().reaction = () => ({ code: 1064, message: 'no' });
      const failing = (what: string) => (): never => {
        throw new Error(what);
      };
      cluster.query('SELEC', failing('of a statement'));
      cluster.getConnection((_, connection) => {
        connection.query('SELEC', failing('on a connection'));
        connection.release();
      });
      await until('all have failed', () => uncaught.length === 2);
      expect(uncaught).toEqual(['of a statement', 'on a connection']);
      answerAll();
      await cluster.query('SELECT id');
      expect(first().accepted).toBe(1);
    } finally {
      process.off('uncaughtException', note);
      for (const listener of others) process.on('uncaughtException', listener);
    }
  });

  it('refuse anything that is no statement', async () => {
    await create();
    for (const wrong of [undefined, null, 7, {}, { sql: 7 }, { sql: 'SELECT 1', timeout: -1 }]) {
      await expect(cluster.query(wrong as never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    }
    await expect(cluster.getConnection({ key: 7 } as never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    expect(() => cluster.getConnection({ key: 7 } as never, () => {})).toThrow('key must be a string');
    expect(() => cluster.of(null as never)).toThrow('pattern must be a non-empty string');
    expect(() => cluster.of('replica')).toThrow('made without `services`');
    expect(attempts).toEqual([]);
  });

  it('send statements with the same key to one server', async () => {
    await create({ picker: hash() });
    for (let i = 0; i < 6; i++) await cluster.query({ sql: 'SELECT id', key: 'tenant-7' });
    (await cluster.getConnection({ key: 'tenant-7' })).release();
    expect(servers.map(statements).sort()).toEqual([0, 6]);
  });

  it('emit connection events as mysql2 does, and name the server', async () => {
    const heard: string[] = [];
    cluster = createPoolCluster({ resolver: staticEndpoints([first().endpoint]), user: 'app' });
    for (const event of ['connection', 'acquire', 'release', 'online', 'offline', 'remove'] as const) {
      cluster.on(event, () => heard.push(event));
    }
    await cluster.query('SELECT id');
    expect(heard).toEqual(['connection', 'online', 'acquire', 'release']);
    first().end('badly');
    await until('it is noticed', () => heard.includes('offline'));
    await cluster.end();
    expect(heard.at(-1)).toBe('remove');
  });
});
